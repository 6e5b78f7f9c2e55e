"""`atoll serve` as a process, and PostgreSQL's programs against it, for the tests."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def atoll():
    """The program, which `make test-python` builds."""
    target = os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"
    path = Path(target) / "release" / "atoll"
    if not path.exists():
        pytest.skip(f"{path} is not built: cargo build --release -p atoll-cli")
    return str(path)


def program(name):
    """A program of PostgreSQL, which `scripts/setup.sh postgres` installs."""
    found = shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed: scripts/setup.sh postgres")
    return found


def certificate(folder):
    """A certificate for localhost and its key, by openssl."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("openssl makes no certificate here")
    key.chmod(0o600)
    return cert, key


class Serving:
    """A server in a process of its own, with its folders below `folder`; its data, too, unless
    `data` is a folder, or false for none."""

    def __init__(self, folder, *options, name="bank", data=True):
        self.folder, self.name = Path(folder), name
        self.runtime = self.folder / "run"
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        command = [atoll(), "--runtime-dir", str(self.runtime), "serve", name, "--port", "0"]
        if data:
            command += ["--data", str(self.folder / "data" if data is True else data)]
        # The log goes there, and is not read while the server runs.
        self.errors = (self.folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            [*command, *map(str, options)], stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError(self.errors.read())
        places = line.removeprefix("listening on ").strip().split(" and ")
        self.port = int(places[-1].rpartition(":" if ":" in places[-1] else ".")[2])

    @property
    def dsn(self):
        """Where a client on this machine connects to."""
        return f"host={self.runtime} port={self.port} dbname={self.name}"

    def environment(self):
        """The same for PostgreSQL's programs."""
        place = {"PGHOST": str(self.runtime), "PGPORT": str(self.port), "PGDATABASE": self.name}
        return {**os.environ, **place}

    def run(self, command, *arguments, **more):
        """Runs a program of PostgreSQL and returns what it has written."""
        done = subprocess.run(
            [program(command), *arguments],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=300,
            **more,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def kill(self):
        """Ends it at once, as an accident would."""
        self.process.kill()
        self.process.wait()
        self.close_pipes()

    def stop(self, how=signal.SIGTERM):
        """Ends it, and returns its status."""
        self.process.send_signal(how)
        status = self.process.wait(timeout=60)
        self.close_pipes()
        return status

    def close_pipes(self):
        self.process.stdout.close()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.kill()
