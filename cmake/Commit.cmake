# Writes OUT, a header with the commit of the checkout SOURCE. Appends "-dirty" if files differ from the commit. Writes
# "unknown" if git reports none. Does not touch a header that is already right, so that nothing is rebuilt.
execute_process(COMMAND git --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=10 --exclude=*
  OUTPUT_VARIABLE commit RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  set(commit "unknown")
endif()
set(text "#pragma once\n\nnamespace weft {\ninline constexpr char kCommit[] = \"${commit}\";\n}\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUT} "${text}")
endif()
