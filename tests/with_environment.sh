#!/usr/bin/env bash
# Runs a command in the environment of launcher/environment.sh: with_environment.sh COMMAND...
source "$(dirname "$0")/../launcher/environment.sh"
exec "$@"
