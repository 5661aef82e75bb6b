// A program in TypeScript that uses the components as a Pulumi package. The class is what `pulumi package add` would generate, by hand:
// that needs a language host of this engine's age. The program runs inside this process, so that no language host is needed at all.
import * as pulumi from "@pulumi/pulumi";
import { LocalWorkspace } from "@pulumi/pulumi/automation";

interface GpuPlatformArgs {
    cluster: Record<string, unknown>;
    sharing: Record<string, Record<string, unknown>>;
    pools: Record<string, unknown>[];
}

class GpuPlatform extends pulumi.ComponentResource {
    declare public readonly advertises: pulumi.Output<Record<string, Record<string, number>>>;

    constructor(name: string, args: GpuPlatformArgs, opts?: pulumi.ComponentResourceOptions) {
        super("gpu-pools:index:GpuPlatform", name, { ...args, advertises: undefined }, opts, true);
    }
}

async function program() {
    const platform = new GpuPlatform("gpu", {
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
    return { advertises: platform.advertises };
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
