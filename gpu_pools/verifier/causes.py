"""The likely causes of differences, each with its remedy and the incidents in which users met it.

Ordered: a cause stands above those that it may bring with it, and reports keep this order. The ids are those of
docs/reference/verification.md. Which cause fits which observation is decided where the comparison is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True)
class Cause:
    """A likely cause.

    Attributes:
        key: its name here.
        rank: its place in the order.
        text: the cause, one sentence.
        remedy: what to do, one sentence.
        incidents: ids of the incidents.
    """

    key: str
    rank: int
    text: str
    remedy: str
    incidents: tuple[str, ...]


class _Row(NamedTuple):
    """A line of the table: key, cause, remedy, ids of incidents."""

    key: str
    text: str
    remedy: str
    incidents: str


_TABLE: Final = (
    # --- the verifier's own surroundings
    _Row(
        "library-missing",
        "the container has no libnvidia-ml.so.1: the container runtime gave it no driver files",
        "Run the verifier's pod with the nvidia runtime class (or CDI) and NVIDIA_DRIVER_CAPABILITIES=utility,compute.",
        "I05",
    ),
    _Row(
        "library-broken",
        "the container has libnvidia-ml.so.1, but it cannot be loaded",
        "Read the loader's words: an incomplete or foreign driver file on the node, or an image that is too old for it.",
        "W20",
    ),
    _Row(
        "nvml-permission",
        "the verifier's container may not ask this; the node itself may be healthy",
        "Give the pod root and NVIDIA_MIG_MONITOR_DEVICES=all: this is a defect of the verifier's pod, not of the node.",
        "O05",
    ),
    _Row(
        "api-permission",
        "the verifier's service account may not read this: a defect of the verifier's pod, not of the node",
        "Give its role the permission that the message names.",
        "",
    ),
    _Row(
        "api-unreachable",
        "the Kubernetes API does not answer",
        "Check the control plane and the pod's network; the verifier asks again.",
        "",
    ),
    _Row(
        "api-answer",
        "the Kubernetes API answered something else than asked for",
        "Check NODE_NAME and the address of the API server.",
        "",
    ),
    _Row(
        "reader-crashed",
        "the process that reads NVML ended before its answer",
        "Read its message; a crash inside libnvidia-ml.so.1 is a defect of the driver's library.",
        "R16",
    ),
    _Row(
        "unsteady",
        "two readings in a row were never equal: something on the node is still changing it",
        "Wait until mig-manager, the device plugin and the driver have settled, and assert again.",
        "R01 R08",
    ),
    _Row(
        "not-answered",
        "NVML does not answer this question on this node",
        "Update the driver if it is older than the GPU; else compare by hand with nvidia-smi.",
        "",
    ),
    # --- what comes before everything else on a node
    _Row(
        "node-not-ready",
        (
            "the kubelet or the container runtime of the node is down; the toolkit may have written a configuration "
            "that containerd refuses"
        ),
        "Look at containerd's and the kubelet's journal on the node.",
        "C02 T05",
    ),
    _Row(
        "driver-upgrade-stuck",
        "the operator's driver upgrade stopped on this node",
        "Drain or reboot the node, then set its nvidia.com/gpu-driver-upgrade-state to upgrade-required.",
        "T04",
    ),
    _Row(
        "driver-upgrading",
        "the operator is replacing the driver of this node, or will do so in its turn: it takes the nodes one after the other",
        (
            "Wait, about two minutes per node; look at the node's nvidia.com/gpu-driver-upgrade-state and at the log "
            "of the gpu-operator."
        ),
        "T04 W24",
    ),
    _Row(
        "os-unknown",
        (
            "NFD does not say which operating system the node has, without which the operator makes no operand at all:"
            " labelSources lacks system"
        ),
        "Add system to labelSources in gpu-pools:nodeFeatureDiscovery (worker.config.core).",
        "W40",
    ),
    _Row(
        "policy-failed",
        "the operator does not get its operands made: its ClusterPolicy says why",
        "Put right what the ClusterPolicy's condition names (kubectl describe clusterpolicy), then run `pulumi up`.",
        "W41 W42 W44",
    ),
    _Row(
        "nfd-missing",
        "NFD did not look at the node: its worker is missing, does not tolerate the node's taints, or is there twice",
        "Check that the NFD worker runs on the node and tolerates its taints.",
        "I01 I02 C11 R09",
    ),
    # --- the driver
    _Row(
        "nvml-hang",
        "a call into the driver does not come back (GPU fallen off the bus, or exporter and plugin raced on MIG devices)",
        "Drain and reboot the node; look for Xid 79 or 119 in its kernel log, and update the driver if it happens again.",
        "R16",
    ),
    _Row(
        "driver-missing",
        "the kernel driver is not loaded: its container failed to build or load it, or Secure Boot refused it",
        "Read the log of the pod nvidia-driver-daemonset (or reinstall the node image's driver).",
        "I06 I07 I08 C10",
    ),
    _Row(
        "driver-mismatch",
        "the driver's library and the loaded kernel module have different versions: the driver was updated and not reloaded",
        "Drain and reboot the node, so that the new kernel module is loaded.",
        "T04 T06 C01",
    ),
    _Row(
        "container-lost-gpu",
        "the container lost its access to the GPU devices (systemd reloaded its device rules), or the driver is broken",
        "Restart the pod; if nvidia-smi fails on the node too, reboot it. Lasting: CDI, or /dev/char links for the devices.",
        "R10",
    ),
    _Row(
        "driver-other",
        "the node does not have the driver version that the operator is to install",
        (
            "Wait while nvidia.com/gpu-driver-upgrade-state of this or another node says that drivers are being "
            "replaced; else look at the pod nvidia-driver-daemonset and at the ClusterPolicy's conditions."
        ),
        "T04 W24",
    ),
    _Row(
        "driver-old",
        (
            "the node's driver is older than the declaration needs (a pinned image, an old node image, an upgrade that"
            " stopped half-way)"
        ),
        "Set a newer driver (operator: driver.version; preinstalled: a newer node image).",
        "T04 T06 C01",
    ),
    # --- GPUs
    _Row(
        "gpu-lost",
        "the GPU fell off the bus (Xid 79)",
        "Drain the node, power-cycle it, and have the GPU replaced if it happens again.",
        "R11",
    ),
    _Row(
        "gpu-missing",
        (
            "the driver sees fewer GPUs than the node should have: one fell off the bus before the driver was loaded, "
            "or the node is another size"
        ),
        "Compare with lspci; reboot the node, and replace it if the GPU stays away.",
        "R11",
    ),
    _Row(
        "gpu-surplus",
        "the node is of another size than declared",
        "Correct the pool's size in the stack file, or move the node to another pool.",
        "C08",
    ),
    _Row(
        "wrong-model",
        "the node has other GPUs than declared: another size, or a pool's selector that takes in foreign nodes",
        "Correct the pool's size or GPU model in the stack file, or its node selector.",
        "C08 C12",
    ),
    _Row(
        "gpu-reset",
        "the GPU asks for a reset or a reboot before it is used again",
        "Drain the node and reset the GPU (nvidia-smi -r) or reboot.",
        "R11",
    ),
    _Row(
        "memory-broken",
        "the GPU has memory errors that it cannot repair",
        "Drain the node and have the GPU replaced.",
        "R11",
    ),
    _Row(
        "memory-repair-pending",
        "a repair of the GPU's memory waits for a reset",
        "Drain the node and reset the GPU (nvidia-smi -r) or reboot.",
        "R11",
    ),
    _Row(
        "memory-errors",
        "uncorrected memory errors happened since the driver was loaded; the device plugin may have taken the GPU out",
        "Drain the node and reset the GPU; if the errors come back, have the GPU replaced.",
        "R11",
    ),
    _Row(
        "ecc-pending",
        "a change of the ECC mode waits for a reset",
        "Drain the node and reset the GPU (nvidia-smi -r) or reboot.",
        "",
    ),
    _Row(
        "inforom",
        "the GPU's own configuration memory is corrupt",
        "Drain the node and have the GPU replaced.",
        "R11",
    ),
    _Row(
        "nvml-error",
        "the driver answers with an error: it or the GPU is not healthy",
        "Look for Xid messages in the node's kernel log; drain and reboot the node.",
        "R11",
    ),
    # --- what the node is told
    _Row(
        "label-missing",
        "the pool's label is not on the node: set by hand and lost, or it never reached the node",
        "Elsewhere than on AKS check NFD and the labeller first: they set it again by themselves. Otherwise run "
        "`gpu-pools repair NODE --stack STACK`: it empties the node's GPUs and sets the declared labels. With rollout the pool's "
        "verifier sets a lost label by itself once no pod holds a GPU of the node.",
        "D02 C07 C12 P06",
    ),
    _Row(
        "label-other",
        "the node carries another value than its pool declares: the update has not reached it, or somebody else writes the label",
        "Run `gpu-pools repair NODE --stack STACK`: it empties the node's GPUs and sets the declared labels. With rollout the "
        "pool's verifier does so by itself once no pod holds a GPU of the node. After an update that did not finish run "
        "`pulumi up` first. If the value comes back, the label's manager in metadata.managedFields says who writes it.",
        "D19 P06 D03 T03",
    ),
    _Row(
        "taint-missing",
        "the pool's taint is not on the node: set by hand and lost, or it never reached the node",
        "Let the pool carry the taint.",
        "C07 P08",
    ),
    _Row(
        "config-map-missing",
        "the ConfigMap that the operator's pods mount is not there, or in another namespace",
        "Run `pulumi up`.",
        "D04 D05 P05",
    ),
    _Row(
        "config-key-missing",
        "the node's label names a key that the ConfigMap lacks",
        "Run `pulumi up`: it adds the key before it sets the label.",
        "D01 D03",
    ),
    _Row(
        "config-edited",
        "the text below this key was edited: the key's hash no longer fits, and the device plugin does not notice edits",
        "Change the declaration and run `pulumi up`; a new text gets a new key.",
        "R05 D06",
    ),
    # --- MIG: what keeps it from being changed, and who should change it
    _Row(
        "mig-unsupported",
        "the GPU has no MIG, or the cloud does not offer it here",
        "Declare another strategy for this pool, or another size.",
        "D15",
    ),
    _Row(
        "layout-illegal",
        "this very GPU cannot have the declared layout",
        "Choose profiles that the GPU lists (nvidia-smi mig -lgip) and that fit together.",
        "D15",
    ),
    _Row(
        "mig-blocked",
        "the change of the MIG mode waits for a GPU reset, and processes hold the GPU",
        "Stop the named processes (monitoring agents, persistence daemon, pods), or drain and reboot the node.",
        "R02",
    ),
    _Row(
        "mig-pending",
        "the change of the MIG mode waits for a GPU reset; in a virtual machine often only a reboot does it",
        (
            "End what holds the GPU (nvidia-smi on the node names it; a verifier's pod is not told), or drain and "
            "reboot the node (mig-manager: WITH_REBOOT=true)."
        ),
        "R03",
    ),
    _Row(
        "mig-config-failed",
        "mig-manager could not apply the layout",
        "Read the log of nvidia-mig-manager; then set the mig.config label to another value and back.",
        "D13 D14 D15 R02 W10",
    ),
    _Row(
        "mig-stuck",
        (
            "mig-manager gave up waiting for the operator's pods to end and did not say so: the state stays pending, "
            "the operands paused (mig-parted#485)"
        ),
        (
            "End what holds the GPU; set the nvidia.com/gpu.deploy.* labels that are paused-for-mig-change back to "
            "true; then set the mig.config label to another value and back."
        ),
        "R01 W23",
    ),
    _Row(
        "mig-config-rebooting",
        "mig-manager reboots the node to change the MIG mode",
        "Wait; if it lasts, look at the node's console.",
        "R03",
    ),
    _Row(
        "mig-config-pending",
        "mig-manager is still at work: it waits up to five minutes for each of the operator's pods that use the GPUs",
        "Wait; after 25 minutes it has given up.",
        "R01",
    ),
    # --- operands that are not there, or have no configuration
    _Row(
        "operand-excluded",
        "the operand runs although the node brings what it installs",
        "Set gpu-pools:operator.driver so that only one of both installs the driver.",
        "C01",
    ),
    _Row(
        "two-plugins",
        "a second device plugin runs on the node and registers resources of its own",
        "Remove one: a static manifest, the cloud's own plugin, or the operator's.",
        "I12 C08",
    ),
    _Row(
        "operand-missing",
        (
            "the operand has no pod on the node: it does not tolerate a taint, its deploy label is off or paused, or "
            "the operator has not made it"
        ),
        "Compare the DaemonSet's tolerations and node selector with the node's taints and nvidia.com/gpu.deploy.* labels.",
        "C11 I04 R01 I09 T03",
    ),
    _Row(
        "operand-image",
        "the operand's image cannot be pulled, or does not exist for this node's system or kernel",
        "Choose a version that exists for the node's operating system, or let the node image bring the driver.",
        "I06 I07",
    ),
    _Row(
        "mps-unheard",
        (
            "config-manager cannot signal the MPS daemon, which therefore serves the cluster's default configuration: a fault of "
            "the device plugin from v0.18.2 on (NVIDIA/k8s-device-plugin#1726, #1827); nothing on the node helps"
        ),
        (
            "From device plugin v0.20.0 on, create the admission policy gpu-pools-mps-signal (pulumi up --refresh, or "
            "`gpu-pools docs mps-signal.yaml | kubectl apply -f -`, and delete this pod once). Below that, set "
            "devicePlugin.version to v0.20.0, or share the GPUs otherwise."
        ),
        "W49",
    ),
    _Row(
        "config-wedged",
        (
            "the operand is stuck on a key that the ConfigMap lost before the node had left it: its config-manager "
            "ends with 'error creating symlink' at each start, the node keeps what it had, and has nothing once the "
            "operand restarts"
        ),
        "Delete this pod, and a new one starts with the right key; or put the key back that the node had before.",
        "W22",
    ),
    _Row(
        "config-on-its-way",
        (
            "the kubelet has not brought the changed ConfigMap to the operand's pod yet, which takes up to a minute "
            "and a half; its config-manager tries again after growing pauses, and meanwhile the operand may serve the "
            "default"
        ),
        "Wait. If it lasts longer than five minutes, delete this pod.",
        "W22",
    ),
    _Row(
        "operand-config",
        "the operand's config-manager found no configuration",
        "Compare the node's nvidia.com/device-plugin.config with the keys of the ConfigMap.",
        "D01 D03 D04",
    ),
    # --- MIG as it is
    _Row(
        "mig-config-unset",
        "mig-manager has not acted on the node's mig.config label",
        "Check that nvidia-mig-manager runs on the node and mounts the pool's configuration.",
        "D14 D16 R01",
    ),
    _Row(
        "mig-not-on",
        "nobody switched MIG on: the mig.config label, mig-manager or the cloud's own partitioning did not act",
        "Look at the node's nvidia.com/mig.config.state and at the log of nvidia-mig-manager.",
        "R01 D13 D14 C06",
    ),
    _Row(
        "mig-not-off",
        "MIG mode is left over from an earlier layout",
        "Set the node's nvidia.com/mig.config to a layout that names this GPU, or nvidia-smi -i <index> -mig 0.",
        "D13 D10",
    ),
    _Row(
        "mig-empty",
        "MIG mode is on without any instance: the layout was never applied, failed, or was 'applied successfully' to nothing",
        "Look at the log of nvidia-mig-manager; set the mig.config label to another value and back.",
        "R01 D15",
    ),
    _Row(
        "mig-one-differs",
        "the other GPUs have the declared layout, this one has not: an instance in use kept it, or applying stopped half-way",
        "Drain the node and set the mig.config label to another value and back.",
        "R01 R02 D13",
    ),
    _Row(
        "mig-layout",
        "the layout is another one: an older declaration's, the provider's default, or one made by hand",
        "Drain the node and set the mig.config label to another value and back.",
        "D13 R01 C06",
    ),
    _Row(
        "mig-half-made",
        "a GPU instance has not exactly one compute instance of its whole size: making it stopped half-way, or was done by hand",
        "Drain the node, destroy the instance (nvidia-smi mig -dci, -dgi) and apply the layout again.",
        "R01",
    ),
    # --- operands that do not come up
    _Row(
        "operand-crashing",
        "the operand ends again and again",
        "Read its message or its log; replicas out of bounds, MPS with MIG, and `single` on a mixed node end this way.",
        "D08 D10 D12",
    ),
    _Row(
        "operand-not-ready",
        "the operand waits: for the toolkit's runtime class, for the driver, for a ConfigMap that it mounts",
        "Read the events of the pod.",
        "I05 D04 D05",
    ),
    _Row(
        "sharing-off",
        "the node offers its plain GPUs: the device plugin runs without the declared configuration",
        "Check the node's nvidia.com/device-plugin.config label and the plugin's log ('Falling back to an empty configuration').",
        "D02 D05 D06 D19",
    ),
    # --- MPS and compute mode
    _Row(
        "mps-operand-missing",
        "the MPS control daemon has no pod on the node: it wants the label nvidia.com/mps.capable=true, which GFD writes",
        "Check that gpu-feature-discovery runs on the node with the same configuration as the device plugin.",
        "I11",
    ),
    _Row(
        "mps-undeclared",
        (
            "an MPS control daemon serves the node although its pool does not declare mps: who reaches its pipes "
            "shares the GPU through it"
        ),
        "End it where it was started (echo quit | nvidia-cuda-mps-control; its unit; its pod), or declare mps for this pool.",
        "W21",
    ),
    _Row(
        "mps-second",
        "a second MPS control daemon runs beside the operator's: its clients escape the declared split",
        "End it where it was started (echo quit | nvidia-cuda-mps-control; its unit; its pod).",
        "W21",
    ),
    _Row(
        "mps-mode-default",
        "MPS is declared, but the GPU is open to everybody: the MPS control daemon never started on it",
        "Look at the pod nvidia-device-plugin-mps-control-daemon; it starts only where the label nvidia.com/mps.capable is true.",
        "I11 D09",
    ),
    _Row(
        "mode-left-over",
        "the compute mode is left over from MPS that ended without a clean stop, or MPS runs although it is not declared",
        "Stop the MPS daemon if one runs, then nvidia-smi -i <index> -c 0.",
        "R14 D09",
    ),
    _Row(
        "mode-by-hand",
        "the compute mode was set by hand; no strategy sets this one",
        "nvidia-smi -i <index> -c 0, and restart the MPS daemon where MPS is declared.",
        "R14",
    ),
    _Row(
        "mps-dead",
        "the MPS control daemon does not answer",
        (
            "Where config-manager of the pod nvidia-device-plugin-mps-control-daemon fails, follow the remedy of that. Else "
            "restart the pod; running clients have to be restarted too."
        ),
        "I11 R14",
    ),
    _Row(
        "mps-fault",
        "a client's fatal fault stopped the MPS server: it serves nobody until the clients of that GPU have ended",
        "Restart the pods that share the GPU; if the server stays, the pod nvidia-device-plugin-mps-control-daemon.",
        "",
    ),
    _Row(
        "mps-split",
        "the MPS daemon serves another split: it was started for another configuration",
        (
            "Where config-manager of the pod nvidia-device-plugin-mps-control-daemon fails, follow the remedy of that. Else "
            "restart the MPS control daemon, then the device plugin."
        ),
        "R05 R12 W49",
    ),
    _Row(
        "mps-unasked",
        "the MPS control daemon cannot be asked from this container",
        (
            "Mount the daemon's pipe directory and let the runtime bring nvidia-cuda-mps-control "
            "(NVIDIA_DRIVER_CAPABILITIES=compute,utility)."
        ),
        "",
    ),
    # --- what the node offers
    _Row(
        "plugin-outdated",
        "the device plugin serves what it read when it started; MIG devices or configuration changed after that",
        "Restart the device plugin's pod on this node.",
        "R04 R05",
    ),
    _Row(
        "unhealthy",
        "the device plugin took devices out as unhealthy (an Xid), and does not take them back",
        "Look for Xids in the node's kernel log; restart the device plugin's pod, or drain and reboot the node.",
        "R11",
    ),
    _Row(
        "nothing-offered",
        "the device plugin offers nothing: it is not registered with the kubelet, or waits for the MPS daemon",
        "Read the device plugin's log.",
        "D01 I11 D12 D08 O06",
    ),
    _Row(
        "count-other",
        "the node offers another number than declared",
        "Read the configuration that the device plugin echoes in its log.",
        "R05 D06 D07 D09",
    ),
    _Row(
        "name-other",
        "the node offers the resource under another name",
        "Compare renameByDefault and the MIG strategy with the configuration that the plugin echoes in its log.",
        "D06 D18 D12",
    ),
    _Row(
        "left-over",
        "the resource is left over from an earlier configuration; pods may still be placed on it",
        "Restart the device plugin, then the kubelet.",
        "R07 C06",
    ),
    # --- what gpu-feature-discovery says
    _Row(
        "gfd-absent",
        "gpu-feature-discovery's labels are not on the node: its pod is missing, or NFD refuses nvidia.com labels",
        "Check gpu-feature-discovery's pod and NFD's extraLabelNs.",
        "I03 R08 R09 I09",
    ),
    _Row(
        "gfd-stale",
        "the labels were written before gpu-feature-discovery last started",
        "Wait a minute; if it lasts, restart gpu-feature-discovery and look at NFD.",
        "R08",
    ),
    _Row(
        "gfd-invalid",
        "MIG strategy single on a node whose GPUs are not all partitioned alike",
        "Apply one layout with one profile to all GPUs, or use the mixed strategy.",
        "D12",
    ),
    _Row(
        "gfd-other",
        "gpu-feature-discovery saw another node than declared",
        "Compare with the differences above; restart gpu-feature-discovery if there are none.",
        "R08 D19",
    ),
)

CAUSES: Final = {
    row.key: Cause(row.key, rank, row.text, row.remedy, tuple(row.incidents.split())) for rank, row in enumerate(_TABLE)
}


def cause(key: str) -> Cause:
    """The cause of that key.

    Raises:
        KeyError: if there is none.
    """
    return CAUSES[key]
