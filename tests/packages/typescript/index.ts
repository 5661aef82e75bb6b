// A program in TypeScript that uses the components by their generated SDK (in sdk/, made before this is compiled). It runs inside this
// process, so that no language host is needed.
import * as pulumi from "@pulumi/pulumi";
import { LocalWorkspace } from "@pulumi/pulumi/automation";
import * as gpus from "./sdk";

async function program() {
    const platform = new gpus.GpuPlatform("gpu", {
        cluster: {
            platform: "aks",
            name: "small",
            location: "westeurope",
            resourceGroup: "small-rg",
            systemPool: { vmSize: "Standard_D4s_v5", count: 1 },
        },
        sharing: { chosen: { mig: { layout: { "1g.10gb": Number(process.argv[2]) } } } },
        pools: [{ name: "gpu", vmSize: "Standard_NC24ads_A100_v4", count: 1, sharing: "chosen" }],
    });
    // Pools and sharing as objects, handed to all that must know them.
    const turns = new gpus.TimeSlicing("turns", { replicas: 4 });
    const pool = new gpus.AksPool("nb", { name: "nb", vmSize: "Standard_NC24ads_A100_v4", count: 1, sharing: turns.declared });
    const operator = new gpus.GpuOperator("operator", { pools: [pool.declared] });
    const nodes = new gpus.AksGpuNodePool("nodes", {
        clusterName: platform.clusterName,
        resourceGroupName: "small-rg",
        pool: pool.declared,
        nodeSubnet: pulumi.interpolate`${platform.clusterName}/subnet`,
        migStrategy: operator.migStrategy,
        configKeys: operator.configKeys,
    }, { dependsOn: [operator] });
    return { advertises: platform.advertises, nodes: nodes.advertises };
}

async function main() {
    const stack = await LocalWorkspace.createOrSelectStack({ stackName: "test", projectName: "typescript", program });
    const previewed = await stack.preview({ onOutput: console.log, color: "never" });
    console.log(JSON.stringify(previewed.changeSummary));
}

main().catch((error: Error) => {
    console.error(error.message);
    process.exit(1);
});
