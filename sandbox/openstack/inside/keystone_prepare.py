"""Makes a new Keystone: its tables, its signing keys, its administrator. Once per sandbox, before Keystone runs.

Arguments: the configuration file; the file with the passwords, which so appear in no command line; the file that is written
when all is done.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path

from keystone.cmd import cli


def main(config_file: str, passwords_file: str, done_file: str) -> int:
    """Run three commands of keystone-manage; each in a fork, since a process can run one and loading it takes longest."""
    os.environ["OS_BOOTSTRAP_PASSWORD"] = json.loads(Path(passwords_file).read_text(encoding="utf-8"))["admin"]
    user = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    for command in (["db_sync"], ["fernet_setup", *user], ["bootstrap"]):
        arguments = ["keystone-manage", "--config-file", config_file, *command]
        child = multiprocessing.get_context("fork").Process(target=cli.main, args=(arguments,))
        child.start()
        child.join()
        if child.exitcode:
            return 1
    Path(done_file).touch(mode=0o600)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
