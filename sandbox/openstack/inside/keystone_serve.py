"""Serves Keystone's own WSGI application to its own user. Arguments: the configuration file, the port on 127.0.0.1."""

from __future__ import annotations

import sys

import waitress
from keystone.server.flask import core

from sandbox.system import peers


def main(config_file: str, port: str) -> None:
    """Serve until killed; fails at once when the port is taken."""
    # Keystone reads the command line, too.
    del sys.argv[1:]
    application = core.initialize_application(name="public", config_files=[config_file])
    waitress.serve(application, sockets=[peers.listening(int(port))], threads=8, ident=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
