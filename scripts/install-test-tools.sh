#!/bin/sh
# Install the Debian packages that the tests use and this machine lacks. Where we may not (no root, no apt), say what is
# missing and go on: tests that need it are skipped and listed. No service is started by it.
set -u

wanted() { # a command or a file, the package that brings it
    [ -e "$1" ] || PATH="$PATH:/usr/sbin:/sbin" command -v "$1" > /dev/null || packages="$packages $2"
}
packages=
wanted dockerd docker.io
wanted /etc/ssl/certs/ca-certificates.crt ca-certificates
wanted mmdebstrap mmdebstrap
wanted /usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring
wanted nft nftables
wanted tc iproute2
wanted java default-jre-headless
wanted ssh openssh-client
wanted sshd openssh-server
# Ubuntu's chromium is a snap, and its package waits for snapd.
grep -qs '^ID=ubuntu' /etc/os-release || wanted chromium chromium
[ -n "$packages" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
    echo "tests: these are missing, and only root with apt can install them here:$packages" >&2
    exit 0
fi
echo "tests: installing$packages" >&2
export DEBIAN_FRONTEND=noninteractive

# Debian's way to have a package's service not started (invoke-rc.d): a test tool is no reason to open port 22.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' > $policy
    chmod +x $policy
fi
log=$(mktemp)
apt() {
    apt-get -qq -o DPkg::Lock::Timeout=120 "$@" < /dev/null > "$log" 2>&1
}
apt update
# shellcheck disable=SC2086 # one word a package is meant
if ! apt install -y --no-install-recommends $packages; then
    # One package that cannot be had must not keep the others away.
    for package in $packages; do
        apt install -y --no-install-recommends "$package" ||
            echo "tests: could not install $package: $(grep '^E:' "$log" | head -n 1)" >&2
    done
fi
rm -f "$log"
