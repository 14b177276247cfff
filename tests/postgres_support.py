"""A PostgreSQL server of our own, on a socket in a folder of its own; nothing of it stays."""

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

PASSWORD = "t0p/secret@word"  # with marks that a careless message would split at
USER = "fairpca"


def binaries():
    """Folder of initdb and postgres, or None."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(os.path.realpath(found)).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def _account():
    """PostgreSQL refuses to be root; another account then owns its files."""
    if os.geteuid() != 0:
        return getpass.getuser()
    names = [entry.pw_name for entry in pwd.getpwall()]
    return next(name for name in ("postgres", "nobody") if name in names)


@contextmanager
def running_server():
    """Start a server that asks for a password, and yield its URI."""
    folder = Path(tempfile.mkdtemp(prefix="fairpca-pg-", dir="/tmp"))
    account, data = _account(), folder / "data"
    (folder / "password").write_text(PASSWORD)
    if os.geteuid() == 0:
        for place in (folder, folder / "password"):
            shutil.chown(place, account)

    def run(name, *words):
        command = [str(binaries() / name), *map(str, words)]
        as_user = {"user": account, "cwd": folder} if os.geteuid() == 0 else {}
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={"LC_ALL": "C", "HOME": str(folder)},
            **as_user,
        )
        assert result.returncode == 0, result.stdout + result.stderr

    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    secret = ("-A", "scram-sha-256", "--pwfile", folder / "password", "-U", USER)
    try:
        run("initdb", "-D", data, *secret, "-E", "UTF8", "--no-sync")
        run("pg_ctl", "start", "-w", "-s", "-D", data, "-o", options, "-l", folder / "log")
        try:
            yield f"postgresql://{USER}:{quote(PASSWORD, safe='')}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "stop", "-m", "immediate", "-s", "-D", data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
