"""Objects that install a Helm chart and hold its values: Flux's HelmRelease, Argo CD's Application, HelmChart of k3s and RKE2.

Says where such an object writes values, in the order in which they are merged (gpu_pools/existing/layers.py). Sources:

- Flux's helm-controller, ChartValuesFromReferences: ``values`` is merged last, over ``valuesFrom``;
- Argo CD's documentation of Helm: parameters over valuesObject over values over valueFiles; util/helm/cmd.go: parameters are
  ``--set``;
- k3s-io/helm-controller 21a911f, chart.go: the files of a HelmChartConfig come after those of its HelmChart, ``values`` after
  ``valuesContent``, and ``set`` is ``--set`` for numbers, true, false and null, else ``--set-string``.

What lies elsewhere is named, not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.existing.findings import plain
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.existing.yaml_tree import Path

Form = Literal["mapping", "text"]
_FLUX: Final = ("helm.toolkit.fluxcd.io", "helm.fluxcd.io")
_ARGO: Final = "argoproj.io"
_RANCHER: Final = "helm.cattle.io"
_SWITCHES: Final[Mapping[str, object]] = {"true": True, "false": False, "null": None}
_CONFIG_KIND: Final = "HelmChartConfig"


@dataclass(frozen=True)
class Layer:
    """One place in which values are written.

    Attributes:
        path: the place.
        value: what stands there.
        form: what the object's definition demands there: a mapping, or YAML as a text.
    """

    path: Path
    value: object
    form: Form


@dataclass(frozen=True)
class Setting:
    """One value that is given by its dotted name, as by ``helm --set``.

    Attributes:
        path: the place of the value.
        name: the dotted name.
        value: the value, with the type that Helm gives it.
    """

    path: Path
    name: str
    value: object


@dataclass(frozen=True)
class Release:
    """One chart with its values.

    Attributes:
        path: where it is declared.
        title: kind and name of the object.
        chart: the chart's name; empty where the object does not tell it.
        version: the chart's version as it is written; empty where none is.
        version_path: the place of the version.
        layers: places of values; each wins over those before it.
        settings: values by their dotted names; they win over all layers.
        unread: (place, what it is) of values that lie elsewhere.
        dropped: (place, what wins) of values that the object's controller drops.
    """

    path: Path
    title: str
    chart: str = ""
    version: str = ""
    version_path: Path = ()
    layers: tuple[Layer, ...] = ()
    settings: tuple[Setting, ...] = ()
    unread: tuple[tuple[Path, str], ...] = ()
    dropped: tuple[tuple[Path, str], ...] = ()


def releases_of(
    value: Mapping[str, object], path: Path, configs: Mapping[str, tuple[Mapping[str, object], Path]]
) -> list[Release]:
    """The charts that an object installs; none where it is of another kind.

    Args:
        value: the object.
        path: where it stands.
        configs: the HelmChartConfigs of the same file by their names, each with its place.
    """
    group, kind = str(value.get("apiVersion")).partition("/")[0], value.get("kind")
    if group in _FLUX and kind == "HelmRelease":
        return [_flux(value, path)]
    if group == _ARGO and kind == "Application":
        return list(_argo(value, path))
    if group == _RANCHER and kind == "HelmChart":
        return [_rancher(value, path, configs.get(_name(value)))]
    if group == _RANCHER and kind == _CONFIG_KIND:
        return [_rancher_config(value, path)]
    return []


def configs_in(objects: Sequence[tuple[object, Path]]) -> dict[str, tuple[Mapping[str, object], Path]]:
    """The HelmChartConfigs whose HelmChart is among the objects, by their names: they are read with it."""
    ours = [
        (value, path)
        for value, path in objects
        if isinstance(value, dict) and str(value.get("apiVersion")).startswith(f"{_RANCHER}/")
    ]
    charts = {_name(value) for value, _ in ours if value.get("kind") == "HelmChart"}
    configs = {_name(value): (value, path) for value, path in ours if value.get("kind") == _CONFIG_KIND}
    return {name: entry for name, entry in configs.items() if name in charts}


def _name(value: Mapping[str, object]) -> str:
    return _text(at(value, "metadata", "name"))


def _title(value: Mapping[str, object]) -> str:
    return plain(f"{value['kind']} {_name(value)}".rstrip())


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _last_name(text: str) -> str:
    """The chart's own name in a reference such as ``oci://registry/charts/gpu-operator`` or ``nvidia/gpu-operator``."""
    return text.rstrip("/").rpartition("/")[2].partition("?")[0]


def _entries(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _layers(spec: object, path: Path, *keys: tuple[str, Form]) -> tuple[Layer, ...]:
    given = spec if isinstance(spec, dict) else {}
    return tuple(Layer((*path, key), given[key], form) for key, form in keys if given.get(key) not in (None, ""))


def _flux(value: Mapping[str, object], path: Path) -> Release:
    spec, here = value.get("spec"), (*path, "spec")
    inner = ("chart", "spec") if at(spec, "chart", "spec") is not None else ("chart",)
    chart = at(spec, *inner, "chart") or at(spec, *inner, "name") or at(spec, "chartRef", "name")
    unread = []
    for index, entry in enumerate(_entries(at(spec, "valuesFrom"))):
        source = f"{_text(at(entry, 'kind')) or 'ConfigMap'} {_text(at(entry, 'name'))}".rstrip()
        unread.append(((*here, "valuesFrom", index), source))
    return Release(
        path,
        _title(value),
        _last_name(_text(chart)),
        _text(at(spec, *inner, "version")),
        (*here, *inner, "version"),
        _layers(spec, here, ("values", "mapping")),
        unread=tuple(unread),
    )


def _argo(value: Mapping[str, object], path: Path) -> Iterator[Release]:
    spec, here = value.get("spec"), (*path, "spec")
    sources = _entries(at(spec, "sources"))
    single = at(spec, "source")
    if not sources:
        yield _argo_source(value, single, (*here, "source"), ())
        return
    dropped = (((*here, "source"), "`sources`"),) if single else ()
    for index, source in enumerate(sources):
        if at(source, "helm") is not None or at(source, "chart") is not None or len(sources) == 1:
            yield _argo_source(value, source, (*here, "sources", index), dropped)
            dropped = ()


def _argo_source(value: Mapping[str, object], source: object, here: Path, dropped: tuple[tuple[Path, str], ...]) -> Release:
    helm, inside = at(source, "helm"), (*here, "helm")
    chart = _text(at(source, "chart"))
    layers = _layers(helm, inside, ("values", "text"), ("valuesObject", "mapping"))
    if len(layers) > 1:
        dropped = (*dropped, (layers[0].path, "`valuesObject`"))
    unread = [
        ((*inside, key, index), _text(at(entry, "path")) or _text(entry))
        for key in ("valueFiles", "fileParameters")
        for index, entry in enumerate(_entries(at(helm, key)))
    ]
    return Release(
        here,
        _title(value),
        _last_name(chart or _text(at(source, "path"))),
        # Of a chart that lies in git the revision is a branch or a commit.
        _text(at(source, "targetRevision")) if chart else "",
        (*here, "targetRevision"),
        layers[-1:],
        tuple(_parameters(at(helm, "parameters"), (*inside, "parameters"))),
        tuple(unread),
        dropped,
    )


def _parameters(value: object, path: Path) -> Iterator[Setting]:
    for index, entry in enumerate(_entries(value)):
        name, given = _text(at(entry, "name")), at(entry, "value")
        if name:
            text = "" if given is None else given if isinstance(given, str) else _json_text(given)
            exact = at(entry, "forceString") is True
            yield Setting((*path, index), name, text if exact else typed(text))


def _json_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rancher(value: Mapping[str, object], path: Path, config: tuple[Mapping[str, object], Path] | None) -> Release:
    spec, here = value.get("spec"), (*path, "spec")
    layers = _layers(spec, here, ("valuesContent", "text"), ("values", "mapping"))
    unread = list(_secrets(spec, here))
    if config:
        changed, place = config[0].get("spec"), (*config[1], "spec")
        layers += _layers(changed, place, ("valuesContent", "text"), ("values", "mapping"))
        unread += _secrets(changed, place)
    settings = at(spec, "set")
    return Release(
        path,
        _title(value),
        _last_name(_text(at(spec, "chart"))),
        _text(at(spec, "version")),
        (*here, "version"),
        layers,
        tuple(
            Setting((*here, "set", name), name, _SWITCHES.get(given.lower(), given) if isinstance(given, str) else given)
            for name, given in (settings.items() if isinstance(settings, dict) else ())
        ),
        tuple(unread),
    )


def _rancher_config(value: Mapping[str, object], path: Path) -> Release:
    """A HelmChartConfig whose HelmChart is not in the file: it has the chart's name."""
    spec, here = value.get("spec"), (*path, "spec")
    layers = _layers(spec, here, ("valuesContent", "text"), ("values", "mapping"))
    return Release(path, _title(value), _name(value), layers=layers, unread=tuple(_secrets(spec, here)))


def _secrets(spec: object, here: Path) -> Iterator[tuple[Path, str]]:
    for index, entry in enumerate(_entries(at(spec, "valuesSecrets"))):
        yield (*here, "valuesSecrets", index), f"Secret {_text(at(entry, 'name'))}".rstrip()


def typed(text: str) -> object:
    """The value that ``helm --set`` makes of a text: switches, null, whole numbers without leading zeros, lists in braces."""
    if text.startswith("{") and text.endswith("}"):
        return [typed(entry.strip()) for entry in text[1:-1].split(",")]
    if text.lower() in _SWITCHES:
        return _SWITCHES[text.lower()]
    sign, digits = (text[:1], text[1:]) if text[:1] in {"-", "+"} else ("", text)
    whole = digits.isascii() and digits.isdigit() and (digits == "0" or not digits.startswith("0"))
    return int(f"{sign}{digits}") if whole and len(digits) <= _LONGEST else text


#: Helm reads numbers of 64 bits; longer ones stay texts.
_LONGEST: Final = 18
