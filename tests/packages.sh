# shellcheck shell=bash
# Sourced by scripts that need a program which launcher/setup.sh does not install.

# need PROGRAM...: installs the missing ones of these programs. Debian 12 has each in a package of the same name.
need() {
  local program missing=() as_root=() log
  for program in "$@"; do
    command -v "$program" > /dev/null || missing+=("$program")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
  log=$(mktemp)
  # The present lists may suffice. Another script may be installing packages.
  ${as_root[@]+"${as_root[@]}"} apt-get -qq update > "$log" 2>&1 || true
  if ! ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "${missing[@]}" >> "$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "$(basename "$0"): ${missing[*]} missing, and apt-get could not install it; Debian 12 has it" >&2
    return 1
  fi
  rm -f "$log"
}
