"""A shell on another machine, by paramiko: who it is, commands as root, and every problem as one line that says what
to do. All of it blocks; it is used from threads."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import threading

import paramiko
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    NoValidConnectionsError,
    PasswordRequiredException,
    SSHException,
)

from chaos.model.errors import SplitbrainError
from clusters.hosts.inventory import PASSPHRASE, PASSWORD, SUDO, Inventory, Machine
from clusters.hosts.taken import ANSWER, PATH, Done

CONNECT = 10.0  # seconds for each step of connecting
_ALIVE = 5  # seconds between signs of life


class UnknownKey(SSHException):
    """A host that is in no file of known hosts."""

    def __init__(self, key: paramiko.PKey) -> None:
        super().__init__("unknown host key")
        self.key = key


class _Refuse(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise UnknownKey(key)


class SshShell:
    """One host. `label` names it in errors: "n1 (root@10.0.0.1)"."""

    def __init__(self, label: str, machine: Machine, common: Inventory) -> None:
        self.label = label
        self._machine, self._common = machine, common
        self._lock = threading.Lock()
        self._client: paramiko.SSHClient | None = None
        self._sudo: tuple[str, bytes] | None = None  # what to put before a command, and ahead of its input

    # ---- connecting

    def transport(self) -> paramiko.Transport:
        """The connection, made if there is none. Raises SplitbrainError."""
        with self._lock:
            transport = self._client.get_transport() if self._client is not None else None
            if transport is None or not transport.is_active():
                self._drop()
                self._client = self._connect()
                transport = self._client.get_transport()
                assert transport is not None
                transport.set_keepalive(_ALIVE)
            return transport

    def drop(self) -> None:
        """Let the connection go; the next command makes another."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connect(self) -> paramiko.SSHClient:
        machine, common = self._machine, self._common
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(_Refuse() if common.check_host_key else paramiko.AutoAddPolicy())
        if common.check_host_key:
            self._load_known_hosts(client)
        try:
            client.connect(
                machine.address,
                machine.port,
                machine.user,
                os.environ.get(PASSWORD),
                pkey=self._key() if machine.key else None,
                passphrase=os.environ.get(PASSPHRASE),
                allow_agent=machine.key is None,
                look_for_keys=machine.key is None,
                timeout=CONNECT,
                banner_timeout=CONNECT,
                auth_timeout=CONNECT,
                channel_timeout=CONNECT,
            )
        except (SSHException, OSError, EOFError, ValueError) as error:
            client.close()
            raise self._error(self._why(error)) from None
        return client

    def _key(self) -> paramiko.PKey:
        """The key that is named."""
        name = self._machine.key
        assert name is not None
        try:
            secret = os.environ.get(PASSPHRASE, "").encode() or None
            return paramiko.PKey.from_path(os.path.expanduser(name), secret)  # type: ignore[arg-type]  # wrong stub
        except OSError as error:
            raise self._error(f"its key {name} cannot be read here ({error.strerror}): name another") from None
        except TypeError:
            raise self._error(self._locked(name)) from None
        except (ValueError, SSHException):
            right = f", or {PASSPHRASE} is not its passphrase" if PASSPHRASE in os.environ else ""
            raise self._error(f"its key {name} is no private key{right}") from None

    @staticmethod
    def _locked(key: str) -> str:
        return f"the key {key} is locked: put its passphrase into {PASSPHRASE}, or use ssh-agent"

    def _load_known_hosts(self, client: paramiko.SSHClient) -> None:
        for file in ("/etc/ssh/ssh_known_hosts", "~/.ssh/known_hosts"):
            with contextlib.suppress(OSError):
                client.load_system_host_keys(os.path.expanduser(file))
        if self._common.known_hosts is not None:
            try:
                client.load_system_host_keys(os.path.expanduser(self._common.known_hosts))
            except OSError as error:
                raise self._error(f"known_hosts {self._common.known_hosts}: {error.strerror}") from None

    def _why(self, error: Exception) -> str:
        """Why it cannot be connected to, and what to do about it."""
        machine = self._machine
        if isinstance(error, UnknownKey):
            port = "" if machine.port == 22 else f"-p {machine.port} "
            return (
                f"its host key ({error.key.get_name()} {error.key.fingerprint}) is not in known_hosts: compare it with "
                f"the host's own, then `ssh-keyscan {port}{machine.address} >> ~/.ssh/known_hosts`"
            )
        if isinstance(error, BadHostKeyException):
            return (
                f"its host key ({error.key.get_name()} {error.key.fingerprint}) is not the one in known_hosts: it is "
                f"another machine, or installed anew; if that is so, `ssh-keygen -R {_named(machine)}` and add it again"
            )
        if isinstance(error, PasswordRequiredException):
            return self._locked("in ~/.ssh")
        if isinstance(error, AuthenticationException):
            tried = f"the key {machine.key}" if machine.key else "any key of ssh-agent or ~/.ssh"
            return (
                f"it takes neither {tried} nor a password of {machine.user or 'your user'}: name the right user and "
                f"key, or put the password into {PASSWORD}"
            )
        if isinstance(error, socket.gaierror):
            return f"no such host is known ({error.strerror}): check the address"
        if isinstance(error, NoValidConnectionsError):
            first = next(iter(error.errors.values()))
            why = getattr(first, "strerror", None) or first
            return f"no SSH at {_named(machine)} ({why}): is sshd running there, and the port right?"
        if isinstance(error, TimeoutError):
            return f"no answer from {_named(machine)} in {CONNECT:g} s: is it up, and no firewall in between?"
        if isinstance(error, OSError) and error.strerror:
            return f"it cannot be reached ({error.strerror}): check the address and the network"
        text = str(error).strip() or type(error).__name__
        return f"no SSH with it ({text.splitlines()[0].rstrip('.')}): is it sshd that listens there?"

    def _error(self, problem: str) -> SplitbrainError:
        return SplitbrainError(f"{self.label}: {problem}")

    # ---- commands

    def root(self) -> None:
        """Find out how commands become root's. Raises SplitbrainError when they cannot."""
        if self.as_user("id -u").out.strip() == b"0":
            self._sudo = ("", b"")
            return
        tried = self.as_user("sudo -n -k true")
        if tried.code == 0:
            self._sudo = ("sudo -n ", b"")
            return
        user = self.as_user("id -un").out.decode().strip()
        if tried.code == 127:
            raise self._error(f"there is no sudo for {user}: apt-get install sudo there, or log in as root")
        secret = os.environ.get(SUDO, os.environ.get(PASSWORD))
        if secret is None:
            raise self._error(
                f"sudo wants a password of {user} ({tried.complaint}): put it into {SUDO}, allow {user} sudo without "
                "one, or log in as root"
            )
        self._sudo = ("sudo -S -k -p '' ", secret.encode() + b"\n")
        tried = self.run("true")
        if tried.code:
            self._sudo = None
            raise self._error(f"{user} may not use sudo with that password ({tried.complaint}): check {SUDO}")

    def run(self, command: str, data: bytes = b"", *, patience: float = ANSWER) -> Done:
        """A command of sh's to its end, `data` its input. Raises SplitbrainError when the connection does not hold."""
        return self._run(command, data, True, patience)

    def as_user(self, command: str) -> Done:
        """A command of whom we logged in as."""
        return self._run(command, b"", False, ANSWER)

    def _run(self, command: str, data: bytes, root: bool, patience: float) -> Done:
        try:
            channel = self.start(command, root=root)
            channel.settimeout(patience)
            with contextlib.suppress(OSError):  # it may not want its input
                channel.sendall(self._ahead(root) + data)
            channel.shutdown_write()
            out = b"".join(iter(lambda: channel.recv(1 << 16), b""))
            err = b"".join(iter(lambda: channel.recv_stderr(1 << 16), b""))
            if not channel.status_event.wait(patience) or (code := channel.recv_exit_status()) < 0:
                raise EOFError("the session ended before the command did")
            return Done(code, out, err.decode(errors="replace"))
        except TimeoutError:
            raise self._error(f"nothing came of {command.split()[0]!r} in {patience:g} s") from None
        except (SSHException, OSError, EOFError) as error:
            raise self._error(f"the session was lost ({str(error) or type(error).__name__})") from None

    def start(self, command: str, *, root: bool = True) -> paramiko.Channel:
        """A command begun, as it is: whoever writes to it begins with `ahead`. Raises SplitbrainError, SSHException."""
        channel = self.transport().open_session(timeout=CONNECT)
        before = ""
        if root:
            assert self._sudo is not None
            before = self._sudo[0]
        channel.exec_command(f"{before}env {PATH} sh -c {shlex.quote(command)}")
        return channel

    def ahead(self) -> bytes:
        """What the input of a command of root's begins with: the password that sudo reads."""
        return self._ahead(True)

    def _ahead(self, root: bool) -> bytes:
        return self._sudo[1] if root and self._sudo is not None else b""


def _named(machine: Machine) -> str:
    return machine.address if machine.port == 22 else f"[{machine.address}]:{machine.port}"
