// A program in Go that uses the components by their generated SDK: sharing and a pool as objects, and an Output where the nodes lie. It
// runs inside this process, so that no language host is needed.
//
//	program preview|up|destroy REPLICAS
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	gpupools "example.com/pulumi-gpu-pools/sdk/go/gpu-pools"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optdestroy"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// The id of a subnet of the program's own, which no preview knows; by Azure's resources, whose SDK has types for them.
func ownSubnet(ctx *pulumi.Context) (pulumi.StringOutput, error) {
	var group, network struct{ pulumi.CustomResourceState }
	west := pulumi.String("westeurope")
	inputs := pulumi.Map{"resourceGroupName": pulumi.String("network"), "location": west}
	if err := ctx.RegisterResource("azure-native:resources:ResourceGroup", "group", inputs, &group); err != nil {
		return pulumi.StringOutput{}, err
	}
	inputs = pulumi.Map{
		"resourceGroupName":  pulumi.String("network"),
		"virtualNetworkName": pulumi.String("own"),
		"location":           west,
		"addressSpace":       pulumi.Map{"addressPrefixes": pulumi.ToStringArray([]string{"10.8.0.0/16"})},
		"subnets":            pulumi.Array{pulumi.Map{"name": pulumi.String("nodes"), "addressPrefix": pulumi.String("10.8.0.0/20")}},
	}
	after := pulumi.DependsOn([]pulumi.Resource{&group})
	if err := ctx.RegisterResource("azure-native:network:VirtualNetwork", "network", inputs, &network, after); err != nil {
		return pulumi.StringOutput{}, err
	}
	return pulumi.Sprintf("%s/subnets/nodes", network.ID()), nil
}

func program(ctx *pulumi.Context) error {
	replicas, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	subnet, err := ownSubnet(ctx)
	if err != nil {
		return err
	}
	cluster, err := gpupools.NewAksCluster(ctx, "cluster", &gpupools.AksClusterArgs{
		Name:       "small",
		Location:   "westeurope",
		Network:    &gpupools.NetworkArgsArgs{NodeSubnet: subnet},
		SystemPool: gpupools.SystemPoolArgsArgs{VmSize: "Standard_D4s_v5", Count: pulumi.IntRef(1)},
	})
	if err != nil {
		return err
	}
	turns, err := gpupools.NewTimeSlicing(ctx, "turns", &gpupools.TimeSlicingArgs{Replicas: replicas})
	if err != nil {
		return err
	}
	pool, err := gpupools.NewAksPool(ctx, "nb", &gpupools.AksPoolArgs{
		Name:    "nb",
		VmSize:  "Standard_NC24ads_A100_v4",
		Count:   pulumi.IntRef(1),
		Sharing: turns.Declared,
	})
	if err != nil {
		return err
	}
	// What Pulumi's SDK for Kubernetes has as a type of its own.
	var kubernetes struct{ pulumi.ProviderResourceState }
	reached := pulumi.Map{"kubeconfig": cluster.Kubeconfig, "enableConfigMapMutable": pulumi.Bool(true)}
	if err := ctx.RegisterResource("pulumi:providers:kubernetes", "kubernetes", reached, &kubernetes); err != nil {
		return err
	}
	inside := pulumi.Providers(&kubernetes)
	pools := []gpupools.PoolArgsInput{pool.Declared}
	features, err := gpupools.NewNodeFeatureDiscovery(ctx, "features", &gpupools.NodeFeatureDiscoveryArgs{Pools: pools}, inside)
	if err != nil {
		return err
	}
	operator, err := gpupools.NewGpuOperator(ctx, "operator", &gpupools.GpuOperatorArgs{Pools: pools}, inside,
		pulumi.DependsOn([]pulumi.Resource{features}))
	if err != nil {
		return err
	}
	nodes, err := gpupools.NewAksGpuNodePool(ctx, "nodes", &gpupools.AksGpuNodePoolArgs{
		ClusterName:       cluster.ClusterName,
		ResourceGroupName: cluster.ResourceGroupName,
		Pool:              pool.Declared.ToPoolArgsPtrOutput(),
		NodeSubnet:        subnet,
		MigStrategy:       operator.MigStrategy,
		ConfigKeys:        operator.ConfigKeys,
	}, pulumi.DependsOn([]pulumi.Resource{operator}))
	if err != nil {
		return err
	}
	ctx.Export("advertises", nodes.Advertises)
	return nil
}

func run(ctx context.Context, act string) error {
	stack, err := auto.UpsertStackInlineSource(ctx, "test", "go", program)
	if err != nil {
		return err
	}
	switch act {
	case "preview":
		previewed, err := stack.Preview(ctx, optpreview.ProgressStreams(os.Stdout), optpreview.Color("never"))
		if err != nil {
			return err
		}
		return show(previewed.ChangeSummary)
	case "up":
		made, err := stack.Up(ctx, optup.ProgressStreams(os.Stdout), optup.Color("never"))
		if err != nil {
			return err
		}
		return show(made.Outputs["advertises"].Value)
	case "destroy":
		_, err := stack.Destroy(ctx, optdestroy.ProgressStreams(os.Stdout), optdestroy.Color("never"))
		return err
	}
	return fmt.Errorf("%s is not preview, up or destroy", act)
}

func show(value any) error {
	text, err := json.Marshal(value)
	fmt.Println(string(text))
	return err
}

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
