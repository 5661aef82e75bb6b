"""The wire between the engine and a stand-in: a real gRPC client speaks to a small stand-in."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from sandbox.providers import values
from sandbox.providers.base import Diff, Failure, PartialFailure, ServiceError, StandIn, serve
from sandbox.providers.differences import compare
from sandbox.providers.values import UNKNOWN, Secret, read_map, reveal, write_map
from sandbox.system.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URN = "urn:pulumi:dev::p::test:index:Thing::one"


class Things(StandIn):
    """Remembers what it was told."""

    package = "test"
    version = "1.2.3"

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str] = []
        self.configured: list[dict[str, Any]] = []

    def configure(self, variables: dict[str, str], args: dict[str, Any]) -> None:
        self.configured.append({**variables, **args})

    def check(self, type_: str, olds: dict[str, Any], news: dict[str, Any]) -> tuple[dict[str, Any], list[Failure]]:
        del olds
        named = {"name": f"{self.current.name}-{self.current.random_seed.hex()}", "type": type_, **news}
        return named, [("size", "too big")] if news.get("size") == 9 else []

    def diff(self, type_: str, id_: str, old_inputs: Any, old_outputs: Any, news: Any) -> Diff:
        del type_, id_, old_outputs
        return compare(old_inputs, news, replace_on=["name"], delete_before_replace=True)

    def create(self, type_: str, name: str, inputs: Any, timeout: float, preview: bool) -> tuple[str, Any]:  # noqa: FBT001
        del type_, timeout
        if inputs.get("fail") == "service":
            raise ServiceError('Code="Nope" Message="no"')
        if inputs.get("fail") == "partly":
            raise PartialFailure("id-1", inputs, ["half of it"])
        if inputs.get("fail") == "bug":
            raise KeyError("x")
        return ("" if preview else f"id-{name}"), {**inputs, "token": Secret("t"), "later": UNKNOWN}

    def read(self, type_: str, id_: str, inputs: Any, outputs: Any) -> tuple[str, Any, Any] | None:
        del type_
        return None if id_ == "gone" else (id_, inputs, outputs)

    def update(self, type_: str, id_: str, old_inputs: Any, old_outputs: Any, news: Any, preview: bool) -> Any:  # noqa: FBT001
        del type_, id_, old_inputs, preview
        return {**old_outputs, **news}

    def delete(self, type_: str, id_: str, inputs: Any, outputs: Any) -> None:
        del type_, inputs, outputs
        self.deleted.append(id_)

    def invoke(self, token: str, args: dict[str, Any]) -> tuple[dict[str, Any], list[Failure]]:
        if token == "test:index:echo":  # noqa: S105
            return args, []
        return super().invoke(token, args)


@pytest.fixture
def things() -> Things:
    return Things()


@pytest.fixture
def client(things: Things) -> Iterator[provider_pb2_grpc.ResourceProviderStub]:
    server, port = serve(things)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)
    server.stop(None)


def create(client: provider_pb2_grpc.ResourceProviderStub, **inputs: Any) -> Any:
    return client.Create(provider_pb2.CreateRequest(urn=URN, properties=write_map(inputs)))


class TestValues:
    def test_the_signatures_are_those_of_the_sdk(self) -> None:
        assert values.UNKNOWN_ON_WIRE == rpc.UNKNOWN
        assert rpc._special_sig_key == values.SIGNATURE_KEY
        assert rpc._special_secret_sig == values.SECRET_SIGNATURE
        assert rpc._special_output_value_sig == values.OUTPUT_SIGNATURE

    @pytest.mark.parametrize(
        "value",
        [1, 1.5, "a", True, [], {}, [1, "b", {"c": None}], UNKNOWN, {"a": UNKNOWN}, Secret({"a": [1]}), [Secret(UNKNOWN)]],
    )
    def test_there_and_back(self, value: Any) -> None:
        assert values.read(values.write(value)) == value

    def test_whole_numbers_are_int(self) -> None:
        assert isinstance(values.read(struct_pb2.Value(number_value=3.0)), int)

    def test_outputs_are_unwrapped(self) -> None:
        inner = {values.SIGNATURE_KEY: values.OUTPUT_SIGNATURE, "value": "v", "dependencies": []}
        assert values.read(values.write(inner)) == "v"
        assert values.read(values.write({**inner, "secret": True})) == Secret("v")
        del inner["value"]
        assert values.read(values.write(inner)) is UNKNOWN

    def test_secrets_never_show_in_a_log(self) -> None:
        assert "hush" not in repr({"a": Secret("hush")})

    def test_reveal(self) -> None:
        assert reveal({"a": [Secret("b")], "c": Secret({"d": Secret(1)})}) == {"a": ["b"], "c": {"d": 1}}


class TestDifferences:
    def test_paths_and_kinds(self) -> None:
        diff = compare({"a": 1, "l": [1, 2], "m": {"x/y": "1"}}, {"b": 2, "l": [1, 3, 4], "m": {"x/y": UNKNOWN}})
        assert diff.detailed == {"a": "delete", "b": "add", "l[1]": "update", "l[2]": "add", 'm["x/y"]': "update"}
        assert diff.diffs == ["a", "b", "l", "m"]

    def test_replacement_patterns(self) -> None:
        old, new = {"p": [{"n": "a", "c": 1}], "vmSize": "a"}, {"p": [{"n": "b", "c": 2}], "vmSize": "a", "vmSizes": "b"}
        diff = compare(old, new, replace_on=["p[*].n", "vmSize"])
        assert diff.replaces == ["p"]
        assert diff.detailed == {"p[0].n": "update-replace", "p[0].c": "update", "vmSizes": "add"}

    def test_nothing(self) -> None:
        assert compare({"a": [1]}, {"a": [1], "b": None}) == Diff(changes=False)


class TestProtocol:
    def test_what_the_engine_asks_first(self, client: Any) -> None:
        assert client.GetPluginInfo(empty_pb2.Empty()).version == "1.2.3"
        assert client.Attach(plugin_pb2.PluginAttach(address="x")) == empty_pb2.Empty()
        assert client.GetSchema(provider_pb2.GetSchemaRequest()).schema == "{}"
        assert client.GetMapping(provider_pb2.GetMappingRequest()).provider == ""
        assert list(client.GetMappings(provider_pb2.GetMappingsRequest()).providers) == []
        for call, request in (
            (client.Handshake, provider_pb2.ProviderHandshakeRequest()),
            (client.Parameterize, provider_pb2.ParameterizeRequest()),
        ):
            with pytest.raises(grpc.RpcError) as error:
                call(request)
            assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED

    def test_configure(self, client: Any, things: Things) -> None:
        client.Cancel(empty_pb2.Empty())
        assert things.cancelled.is_set()
        answer = client.Configure(provider_pb2.ConfigureRequest(variables={"a": "b"}, args=write_map({"k": Secret("v")})))
        assert answer.acceptSecrets
        assert answer.acceptOutputs
        assert answer.supportsPreview
        assert things.configured == [{"a": "b", "k": "v"}]
        assert not things.cancelled.is_set()

    def test_check(self, client: Any) -> None:
        news = write_map({"size": 9, "password": Secret("p"), "later": UNKNOWN})
        answer = client.Check(provider_pb2.CheckRequest(urn=URN, news=news, randomSeed=b"\x0a"))
        inputs = read_map(answer.inputs)
        assert inputs["name"] == "one-0a"
        assert inputs["type"] == "test:index:Thing"
        assert inputs["password"] == Secret("p")
        assert inputs["later"] is UNKNOWN
        assert [(item.property, item.reason) for item in answer.failures] == [("size", "too big")]

    def test_check_config_keeps_secrets(self, client: Any) -> None:
        answer = client.CheckConfig(provider_pb2.CheckRequest(urn=URN, news=write_map({"kubeconfig": Secret("k")})))
        assert read_map(answer.inputs) == {"kubeconfig": Secret("k")}

    def test_diff(self, client: Any) -> None:
        old, new = write_map({"name": "a", "size": 1}), write_map({"name": "b", "size": 2})
        answer = client.Diff(provider_pb2.DiffRequest(urn=URN, id="i", old_inputs=old, olds=old, news=new))
        assert answer.changes == provider_pb2.DiffResponse.DIFF_SOME
        assert list(answer.replaces) == ["name"]
        assert answer.deleteBeforeReplace
        assert answer.detailedDiff["name"].kind == provider_pb2.PropertyDiff.UPDATE_REPLACE
        assert answer.detailedDiff["size"].kind == provider_pb2.PropertyDiff.UPDATE
        same = client.Diff(provider_pb2.DiffRequest(urn=URN, id="i", old_inputs=old, olds=old, news=old))
        assert same.changes == provider_pb2.DiffResponse.DIFF_NONE

    def test_create(self, client: Any) -> None:
        answer = create(client, password=Secret("p"), size=1)
        assert answer.id == "id-one"
        outputs = read_map(answer.properties)
        assert outputs == {"password": Secret("p"), "size": 1, "token": Secret("t"), "later": UNKNOWN}

    def test_a_refusal_is_passed_on_as_it_is(self, client: Any) -> None:
        with pytest.raises(grpc.RpcError) as error:
            create(client, fail="service")
        assert error.value.details() == 'Code="Nope" Message="no"'
        assert error.value.code() == grpc.StatusCode.UNKNOWN

    def test_a_fault_of_the_stand_in_says_so(self, client: Any) -> None:
        with pytest.raises(grpc.RpcError) as error:
            create(client, fail="bug")
        assert error.value.details() == "KeyError: 'x'"

    def test_a_partial_failure_keeps_the_resource(self, client: Any) -> None:
        with pytest.raises(grpc.RpcError) as error:
            create(client, fail="partly", password=Secret("p"))
        metadata = dict(error.value.trailing_metadata())
        status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
        detail = provider_pb2.ErrorResourceInitFailed()
        assert status.details[0].Unpack(detail)
        assert detail.id == "id-1"
        assert list(detail.reasons) == ["half of it"]
        assert read_map(detail.properties)["password"] == Secret("p")

    def test_read_update_delete(self, client: Any, things: Things) -> None:
        props = write_map({"a": Secret("s")})
        found = client.Read(provider_pb2.ReadRequest(urn=URN, id="i", properties=props, inputs=props))
        assert found.id == "i"
        assert read_map(found.properties) == {"a": Secret("s")}
        assert client.Read(provider_pb2.ReadRequest(urn=URN, id="gone")).id == ""
        request = provider_pb2.UpdateRequest(urn=URN, id="i", olds=props, old_inputs=props, news=props)
        assert read_map(client.Update(request).properties) == {"a": Secret("s")}
        client.Delete(provider_pb2.DeleteRequest(urn=URN, id="i", properties=props))
        assert things.deleted == ["i"]

    def test_invoke(self, client: Any) -> None:
        answer = client.Invoke(provider_pb2.InvokeRequest(tok="test:index:echo", args=write_map({"a": 1})))
        assert read_map(getattr(answer, "return")) == {"a": 1}
        with pytest.raises(grpc.RpcError) as error:
            client.Invoke(provider_pb2.InvokeRequest(tok="test:index:other"))
        assert error.value.details() == "Unknown Invoke token: test:index:other"


class TestCommand:
    """`python -m sandbox.providers`."""

    def test_serves_until_told_to_stop(self, tmp_path: Path) -> None:
        record = tmp_path / "providers.json"
        command = [
            sys.executable,
            "-m",
            "sandbox.providers",
            "--state",
            str(tmp_path),
            "--without",
            "kubernetes",
            "--without",
            "openstack",
        ]
        with subprocess.Popen(command) as process:
            try:
                wait_until(record.exists, timeout=20, what="the provider stand-ins")
                ports = json.loads(record.read_text())["ports"]
                with grpc.insecure_channel(f"127.0.0.1:{ports['azure-native']}") as channel:
                    client = provider_pb2_grpc.ResourceProviderStub(channel)
                    assert client.GetPluginInfo(empty_pb2.Empty()).version == "3.29.0"
            finally:
                process.terminate()
            assert process.wait(10) == 0
        assert set(ports) == {"azure-native"}
        assert not record.exists()
