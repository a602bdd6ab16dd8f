# Reads all sources of src and launcher (see layering_test.sh): house is the file with libraries and rooms, edges a file
# that gets who includes whom. Prints what breaks the order.
function library_of(path, parts) { split(path, parts, "/"); return parts[1] }
function room_of(path) { sub(/\/[^\/]*$/, "", path); return path }
# Where the file of an include lies.
function file_of(path) { return (path ~ /^launcher\// ? "" : "src/") path }

BEGIN {
  while ((getline line < house) > 0) {
    split(line, halves, ": ")
    n = split(halves[1], left, " ")
    library = left[1]
    for (i = 3; i <= n; i++) below[library, left[i]] = 1
    n = split(halves[2], rooms, " ")
    for (i = 1; i <= n; i++) place[rooms[i] == "." ? library : library "/" rooms[i]] = i
  }
}

FNR == 1 {
  path = FILENAME
  sub(/^src\//, "", path)
  library = library_of(path)
  room = room_of(path)
  if (!(room in place)) print FILENAME ":1: " room " is no room of the house in layering_test.sh"
}

/^ *# *include *["<](weft|launcher)\// {
  split($0, quoted, /[<>"]/)
  to = quoted[2]
  sub(/^weft\//, "", to)
  other = library_of(to)
  print FILENAME, file_of(to) > edges
  if (other != library && !((library, other) in below))
    print FILENAME ":" FNR ": " library " may not include " other
  else if (other == library && place[room_of(to)] > place[room])
    print FILENAME ":" FNR ": " room " comes before " room_of(to)
}

# A type at the beginning of a line, by itself or after "template <...>": declared where a semicolon follows, else defined.
{
  line = $0
  sub(/ *\/\/.*/, "", line)
  sub(/^template <[^>]*(<[^>]*>[^>]*)*> /, "", line)
  if (line !~ /^(class|struct|union|enum( class| struct)?) [A-Za-z_][A-Za-z0-9_]*( final)?( ?:.*| \{.*|;)?$/) next
  sub(/^(enum )?(class|struct|union|enum) /, "", line)
  match(line, /^[A-Za-z0-9_]+/)
  name = substr(line, 1, RLENGTH)
  if (line ~ /^[A-Za-z0-9_]+( : [A-Za-z0-9_:]+)?;$/)
    forward[name] = forward[name] " " FILENAME ":" FNR
  else
    home[name] = home[name] " " library
}

END {
  for (name in forward) {
    n = split(forward[name], places, " ")
    for (i = 1; i <= n; i++) {
      file = places[i]
      sub(/^src\//, "", file)
      own = library_of(file)
      if (home[name] != "" && index(home[name] " ", " " own " ") == 0)
        print places[i] ": " own " may not declare " name ", which is of" home[name]
    }
  }
}
