// In place of the kubelet's eviction manager: the controller-manager's pod garbage collector asks whether a kubelet has evicted a pod.
package eviction

import v1 "k8s.io/api/core/v1"

const evicted = "Evicted"

// PodIsEvicted says whether a pod has the status with which a kubelet leaves it after an eviction.
func PodIsEvicted(status v1.PodStatus) bool {
	return status.Reason == evicted && status.Phase == v1.PodFailed
}
