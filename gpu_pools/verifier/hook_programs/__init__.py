"""The programs that Helm's hook Jobs run before and after the operator's release is deleted or upgraded.

They run in the cluster without anything else of this project, as the verifier and its changer do, so they belong to the same
package and may import nothing of the core. They are in neither file for the nodes (archive.py): a Job gets its program as an
argument, since no ConfigMap of ours exists when it runs (gpu_pools/rendering/hook_jobs.py).
"""
