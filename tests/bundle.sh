# shellcheck shell=bash
# Sourced by scripts that run an archive of launcher/bundle.sh on a machine without a build.

# open_bundle ARCHIVE: unpacks the archive into $folder, which is removed when the script ends. Programs in $folder/weft/bin
# find their libraries. The folders of a Python environment are searched last.
open_bundle() {
  local wheels
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  tar -xf "$1" -C "$folder"
  wheels=$(python3 -c 'import glob, site; print(":".join(d for s in site.getsitepackages() for d in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null) ||
    wheels=""  # no Python
  export LD_LIBRARY_PATH=$folder/weft/lib:$folder/weft/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}${wheels:+:$wheels}
}
