#!/usr/bin/env bash
# Writes the man page from --help, which comes from the table of options.
#   tools/man.sh path/to/mutirao > mutirao.1
set -u
program=$1
# Text as it is: no groff request, no lost backslash.
literal() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"; }
version=$("$program" --version) || exit 1
printf '.TH MUTIRAO 1 "" "%s" "User commands"\n' "$version"
printf '.SH NAME\nmutirao \\- language models split across MPI ranks, bit-identical on any number of them\n'
printf '.SH SYNOPSIS\n.B mutirao\n.I COMMAND\n[options]\n.SH DESCRIPTION\n.nf\n'
"$program" --help | tail -n +3 | literal
printf '.fi\n'
for command in $("$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
  printf '.SH MUTIRAO %s\n.nf\n' "${command^^}"
  "$program" "$command" --help | tail -n +3 | literal
  printf '.fi\n'
done
