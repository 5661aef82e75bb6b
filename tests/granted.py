"""The verifiers' account, its rights and the policy that narrows them, as components/proof/verification.py makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.proof.verifier_pods import SERVICE_ACCOUNT
from gpu_pools.proof.verifier_rights import (
    POLICY,
    ROLE,
    VERIFIER_NAMESPACE,
    cluster_rules,
    namespace_rules,
    policy_binding_spec,
    policy_spec,
)

if TYPE_CHECKING:
    from sandbox.cluster.api import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def grant(api: Api) -> None:
    """Make them; the namespaces that the rights name must be there."""
    api.create("/api/v1/namespaces", {"metadata": {"name": VERIFIER_NAMESPACE}})
    api.create(f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/serviceaccounts", {"metadata": {"name": SERVICE_ACCOUNT}})
    admission = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    api.create(f"{admission}ies", {"metadata": {"name": POLICY}, "spec": policy_spec()})
    api.create(f"{admission}ybindings", {"metadata": {"name": POLICY}, "spec": policy_binding_spec()})
    subjects = [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": VERIFIER_NAMESPACE}]
    places = [("ClusterRole", RBAC, cluster_rules())]
    places += [("Role", f"{RBAC}/namespaces/{where}", rules) for where, rules in namespace_rules().items()]
    for kind, base, rules in places:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ROLE}
        api.create(f"{base}/{kind.lower()}s", {"metadata": {"name": ROLE}, "rules": rules})
        body = {"metadata": {"name": ROLE}, "roleRef": reference, "subjects": subjects}
        api.create(f"{base}/{kind.lower()}bindings", body)
