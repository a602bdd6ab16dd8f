#!/usr/bin/env bash
# Installs the packages that Weft needs to build, test and run on Debian 12 and 13. Asks no questions, and prints nothing if
# all packages are installed. On another system it prints the needed packages and fails, unless dpkg has all of them.
# If nvcc is found, it also fetches the headers of cudnn-frontend into build/deps, which cuDNN's attention is built with.
set -euo pipefail
script=$(realpath "$0")
root=$(dirname "$(dirname "$script")")
os_release=/etc/os-release

packages=(build-essential cmake ninja-build ccache mold
  openmpi-bin libopenmpi-dev libgloo-dev libdnnl-dev libopenblas-dev
  libabsl-dev libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libpcre2-dev libsentencepiece-dev
  zlib1g-dev libzstd-dev libisal-dev libssl-dev libgtest-dev libgmock-dev iproute2)

# The wheel for one version of Python and one processor, pinned by its hash. All wheels contain the same headers.
frontend_version=1.32.0
frontend_hash=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
frontend_wheel=(--python-version 3.11 --implementation cp --abi cp311 --platform manylinux_2_28_x86_64)
frontend=$root/build/deps/cudnn-frontend

nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2> /dev/null || true)
has_frontend() { [ "$(cat "$frontend/sha256" 2> /dev/null)" = $frontend_hash ]; }
if [ -n "$nvcc" ] && ! has_frontend && ! python3 -m pip --version > /dev/null 2>&1; then packages+=(python3-pip); fi

# Prints "Debian 13", "Ubuntu 24.04" or "Fedora Linux 41", without the number if the system has none.
system_name() {
  local NAME="a system without $os_release" VERSION_ID=""
  # shellcheck source=/dev/null
  [ ! -e "$os_release" ] || . "$os_release"
  NAME=${NAME% GNU/Linux}
  echo "$NAME${VERSION_ID:+ $VERSION_ID}"
}

install_packages() {
  local installed missing=() as_root=() log package system
  system=$(system_name)
  if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    echo "setup: this is $system, and packages are installed on Debian 12 and 13 only; install the likes of these packages of Debian's, and build as README.md says: ${packages[*]}" >&2
    return 1
  fi
  installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' "${packages[@]}" 2> /dev/null || true)"
  for package in "${packages[@]}"; do
    [[ $installed == *" installed:$package "* ]] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [[ $system != "Debian 12" && $system != "Debian 13" ]]; then
    echo "setup: this is $system, and packages are installed on Debian 12 and 13 only; install these and run this again: ${missing[*]}" >&2
    return 1
  fi

  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo > /dev/null || ! sudo -n true 2> /dev/null; then
      echo "setup: ${missing[*]} missing; run this as root: $script" >&2
      return 1
    fi
    as_root=(sudo -n)
  fi
  echo "setup: installing ${missing[*]}"
  log=$(mktemp)
  apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o DPkg::Lock::Timeout=300 "$@" >> "$log" 2>&1
  }
  apt update || true  # the present lists may suffice
  if ! apt install --no-install-recommends "${missing[@]}"; then
    cat "$log" >&2
    rm -f "$log"
    echo "setup: apt-get could not install ${missing[*]}" >&2
    return 1
  fi
  rm -f "$log"
}

# Fetches include/ and the licences from the wheel. Reports a failure without stopping the setup, because Weft builds without
# these headers too.
fetch_frontend() {
  local new
  echo "setup: fetching the headers of cudnn-frontend $frontend_version"
  mkdir -p "$(dirname "$frontend")"
  new=$(mktemp -d "$frontend.XXXXXX")
  echo "nvidia-cudnn-frontend==$frontend_version --hash=sha256:$frontend_hash" > "$new/requirement"
  if python3 -m pip download -q --no-deps --require-hashes --only-binary :all: "${frontend_wheel[@]}" \
    -d "$new" -r "$new/requirement" > "$new/log" 2>&1 && unpack_frontend "$new"/*.whl "$new" >> "$new/log" 2>&1; then
    rm -rf "$new"/*.whl "$new/requirement" "$new/log" "$frontend"
    echo $frontend_hash > "$new/sha256"
    chmod 755 "$new"
    mv -T "$new" "$frontend" 2> /dev/null || rm -rf "$new"  # if it exists, a concurrent setup of this tree was faster
    return
  fi
  cat "$new/log" >&2
  rm -rf "$new"
  echo "setup: cudnn-frontend $frontend_version could not be fetched, so attention on GPUs is built without cuDNN, which is slower; run this again with a network: $script" >&2
}
unpack_frontend() {
  python3 - "$@" << 'PY'
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("include/") or "/licenses/" in name])
PY
}

# Names missing parts of cuDNN but does not install them, because the package comes from NVIDIA, like the toolkit.
name_cudnn() {
  local toolkit major missing=() headers=(/usr/include /usr/include/*-linux-gnu) libraries=(/usr/lib/*-linux-gnu)
  for toolkit in "$(dirname "$(dirname "$(realpath "$nvcc")")")" "${CUDA_HOME:-/usr/local/cuda}"; do
    headers+=("$toolkit"/include "$toolkit"/targets/*/include)
    libraries+=("$toolkit"/lib64 "$toolkit"/lib "$toolkit"/targets/*/lib)
  done
  major=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\).*/\1/p')
  find_first "${headers[@]}" -- cudnn.h || missing+=(cudnn.h)
  { ldconfig -p 2> /dev/null || true; } | grep -q 'libcudnn\.so\.9 ' || find_first "${libraries[@]}" -- libcudnn.so.9 ||
    missing+=(libcudnn.so.9)
  [ ${#missing[@]} -eq 0 ] ||
    echo "setup: ${missing[*]} not found, so attention on GPUs goes without cuDNN, which is slower; install cudnn9-cuda-$major from NVIDIA's package repository (or name its include folder with -DWEFT_CUDNN_DIR, its library's with LD_LIBRARY_PATH)" >&2
}
# find_first FOLDER... -- FILE: succeeds if one of the folders has the file.
find_first() {
  local folder
  for folder in "${@:1:$#-2}"; do
    [ ! -e "$folder/${*: -1}" ] || return 0
  done
  return 1
}

install_packages
if [ -n "$nvcc" ]; then
  has_frontend || fetch_frontend
  name_cudnn
fi
