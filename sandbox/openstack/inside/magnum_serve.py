"""Serves Magnum: its API application, its conductor and its status job, in one process over oslo.messaging's `fake://`.

One process, since a message broker between API and conductor would be a server of its own and adds nothing to what Magnum
decides. What differs from magnum-api and magnum-conductor, and why:

- The status job is Magnum's, the clock is not: Magnum asks a driver every ten seconds, this does several times a second.
- It looks at node groups too, not at clusters alone: Magnum writes a cluster's status before the row of a new group, and a
  fast job in between would leave the group in progress for good.
- The API answers a moment later: when the conductor has begun, or after a second. Over `fake://` the conductor looks for work
  twenty times a second, so that the openstack plugin, which looks at once after the answer and then every 20 seconds, always came
  too early and took what was not there yet for deleted. In a cloud it seldom does.
- It has the driver see whether a cluster that is at rest has moved: the sandbox may have started it again on another port.
- The tables are made from the models: Magnum's migrations cannot run on sqlite.
- Whoever writes to sqlite says so when he begins: two transactions that both begin by reading could never both go on.

- Other users of this machine are not served, whatever token they have, and nothing is sent to their servers, should one have
  taken Keystone's port (sandbox.system.peers).

Arguments: the configuration file, the port on 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Final

import sqlalchemy
import waitress
from magnum import objects
from magnum.api import app as api
from magnum.common import context as contexts
from magnum.common import rpc_service, service, short_id
from magnum.conductor.handlers import (
    ca_conductor,
    cluster_conductor,
    conductor_listener,
    credential_conductor,
    federation_conductor,
    indirection_api,
    nodegroup_conductor,
)
from magnum.conf import CONF
from magnum.db.sqlalchemy import models
from magnum.drivers.common import driver
from magnum.service import periodic
from oslo_db.sqlalchemy import enginefacade
from oslo_log import log
from oslo_service import loopingcall
from urllib3.connection import HTTPConnection

from sandbox.system import peers

Context = Any
"""Magnum's request context."""
Row = Any
"""A cluster of Magnum; its types are not where this is checked."""

_LOG: Final = log.getLogger("magnum.gpu_pools")
_SECONDS_BETWEEN_LOOKS: Final = 0.3
_LONGEST_ANSWER_SECONDS: Final = 1.0


def main(config_file: str, port: str) -> None:
    """Serve until killed; fails at once when the port is taken."""
    service.prepare_service(["magnum", "--config-file", config_file])
    _dial_own_servers_only()
    _prepare_database()
    _start_conductor()
    rpc_service.API._cast = _cast  # noqa: SLF001 there is no setting for it
    threading.Thread(target=_watch, name="status", daemon=True).start()
    waitress.serve(api.load_app(), sockets=[peers.listening(int(port))], threads=8, ident=None)


def _dial_own_servers_only() -> None:
    """Check each server before the first byte: Magnum sends Keystone its password."""
    dial = HTTPConnection.connect

    def connect(connection: HTTPConnection) -> None:
        dial(connection)
        peers.require_own_server(connection.sock)

    HTTPConnection.connect = connect  # type: ignore[assignment, method-assign]


def _prepare_database() -> None:
    # Else readers would use the writers' engine, in spite of the slave_connection that is configured.
    enginefacade.configure(synchronous_reader=False)
    engine = enginefacade.writer.get_engine()

    def begin_as_writer(*given: Any) -> tuple[str, Any]:  # noqa: ANN401 SQLAlchemy decides what it is given
        _, _, statement, parameters, *_ = given
        # oslo.db begins all transactions itself, and cannot be told how.
        return ("BEGIN IMMEDIATE" if statement == "BEGIN" else statement), parameters

    sqlalchemy.event.listen(engine, "before_cursor_execute", begin_as_writer, retval=True)

    with engine.connect() as connection:
        connection.connection.dbapi_connection.execute("PRAGMA journal_mode=WAL")
    models.Base.metadata.create_all(engine)


def _start_conductor() -> None:
    handlers = (
        indirection_api,
        cluster_conductor,
        conductor_listener,
        credential_conductor,
        ca_conductor,
        federation_conductor,
        nodegroup_conductor,
    )
    endpoints = [module.Handler() for module in handlers]
    conductor = rpc_service.Service.create(CONF.conductor.topic, short_id.generate_id(), endpoints, binary="magnum-conductor")
    conductor.start()


def _cast(api_: rpc_service.API, method: str, *given: Any, **named: Any) -> None:  # noqa: ANN401 it is Magnum's message
    """Give the conductor something to do and see it done, unless that takes long; what becomes of it, only its log says."""

    def call() -> None:
        with contextlib.suppress(Exception):
            api_._client.call(api_._context, method, *given, **named)  # noqa: SLF001 as Magnum's own _cast does

    thread = threading.Thread(target=call, name=method, daemon=True)
    thread.start()
    thread.join(_LONGEST_ANSWER_SECONDS)


def _watch() -> None:
    """Let Magnum's status job run for every cluster that is in progress or has a group that is; see to the others' addresses."""
    while True:
        context = contexts.make_admin_context(all_tenants=True)
        contexts.set_ctx(context)
        try:
            for cluster in objects.Cluster.list(context):
                if _in_progress(context, cluster):
                    _look_at(context, cluster)
                else:
                    driver.Driver.get_driver_for_cluster(context, cluster).correct_address(cluster)
        except Exception:  # noqa: BLE001 as Magnum's own job: whatever is wrong with one look, the next one comes
            _LOG.exception("The status of clusters could not be read.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _in_progress(context: Context, cluster: Row) -> bool:
    groups = objects.NodeGroup.list(context, cluster.uuid)
    return any((row.status or "").endswith("_IN_PROGRESS") for row in (cluster, *groups))


def _look_at(context: Context, cluster: Row) -> None:
    try:
        periodic.ClusterUpdateJob(context, cluster).update_status()
    except loopingcall.LoopingCallDone:
        return  # the job's way to end
    except Exception:  # noqa: BLE001 as above
        _LOG.exception("Cluster %s: its status could not be updated.", cluster.uuid)


if __name__ == "__main__":
    main(*sys.argv[1:])
