module example.com/pulumi-gpu-pools/sdk/go/gpu-pools

go 1.26

require (
	github.com/blang/semver v3.5.1+incompatible
	github.com/pulumi/pulumi/sdk/v3 v3.259.0
)
