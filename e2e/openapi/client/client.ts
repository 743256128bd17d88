// Calls every operation of openapi.yaml with the types that openapi-typescript makes of it.
// It reads Input from standard input and prints a line of JSON for each answer. An answer
// that is not what the operation promises ends it with an error.

import createClient, { type Middleware } from "openapi-fetch";
import { text } from "node:stream/consumers";
import { Agent, Request, fetch } from "undici";
import type { components, paths } from "./schema.js";

/** A server of an instance, and the keys that its agent has. */
interface Machine {
  serverId: string;
  key: string;
  certificateRequest: string;
  nextKey: string;
  nextCertificateRequest: string;
}

interface Input {
  url: string;
  rootCertificate: string;
  token: string;
  image: string; // what `docker save` writes
  storage: Machine;
  registry: Machine;
  master: Machine;
}

const input: Input = JSON.parse(await text(process.stdin));

const note: Middleware = {
  onResponse({ request, response, schemaPath }) {
    console.log(JSON.stringify({ method: request.method, path: schemaPath, status: response.status }));
  },
};

/** A caller with a bearer token, a client certificate, or nothing. */
function caller(bearer?: string, identity?: { cert: string; key: string }) {
  const dispatcher = new Agent({ connect: { ca: input.rootCertificate, ...identity } });
  const client = createClient<paths>({
    baseUrl: input.url,
    Request: Request as unknown as typeof globalThis.Request,
    fetch: ((request: Request) => fetch(request, { dispatcher })) as unknown as typeof globalThis.fetch,
    headers: bearer ? { Authorization: `Bearer ${bearer}` } : {},
  });
  client.use(note);
  return client;
}

/** The content of a good answer. */
async function good<T>(answer: Promise<{ data?: T; error?: components["schemas"]["Problem"]; response: Response }>): Promise<T> {
  const { data, error, response } = await answer;
  if (error !== undefined || !response.ok) {
    throw new Error(`${response.url}: ${response.status} ${JSON.stringify(error)}`);
  }
  return data as T;
}

function must(holds: boolean, what: string): void {
  if (!holds) {
    throw new Error(what);
  }
}

const cluster = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e";
const registry = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2f";
const joined = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d31";
const none = "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d30";
const volume = "9a3e6c1e-1f7e-4d0e-8c55-0d8c1c6e2b11";
const script = "Scripts/install.sh";
const image = "Files/images/private_registry.tar";

const anybody = caller();
const operator = caller(input.token);
const path = { vnfInstanceId: cluster };

const spec: components["schemas"]["InstanceSpec"] = {
  additionalParams: {
    k8s_cluster_installation_param: {
      script_path: script,
      master_node: { ssh_cp_name: "master_CP", cluster_cp_name: "master_CP", username: "ubuntu", password: "hunter2" },
      worker_node: { ssh_cp_name: "worker_CP" },
      storage_server: {
        ssh_cp_name: "storage_server_CP",
        cinder_volume_setup_params: [{ volume_resource_id: "storage_server_volume", mount_to: "/volume" }],
        nfs_server_setup_params: [{ export_dir: "/volume/nfs/pv1", export_to: "10.10.0.0/24" }],
      },
    },
  },
  topology: {
    servers: [
      {
        id: input.storage.serverId,
        name: "storage_server",
        volumeIds: [volume],
        connectionPoints: [{ name: "storage_server_CP", addresses: ["10.10.0.5"] }],
      },
    ],
    volumes: [{ resourceId: "storage_server_volume", id: volume, sizeBytes: 1 << 30 }],
  },
};

async function about() {
  await good(anybody.GET("/healthz", { parseAs: "text" }));
  await good(anybody.GET("/readyz", { parseAs: "text" }));
  const version = await good(anybody.GET("/v1/version"));
  must(version.version !== "", "the version is empty");
  const document = await good(anybody.GET("/v1/openapi.yaml", { parseAs: "text" }));
  must(document.startsWith("openapi: 3."), "/v1/openapi.yaml is no OpenAPI document");
  await good(anybody.GET("/v1/agent/{arch}", { params: { path: { arch: "amd64" } }, parseAs: "arrayBuffer" }));
  const trust = await good(operator.GET("/v1/trust"));
  must(trust.rootCertificate === input.rootCertificate, "another root certificate");
  const replicas = await good(operator.GET("/v1/replicas"));
  must(replicas.items.length === 0, "a controller with a store of its own has replicas");
  const diagnostics = await good(operator.GET("/v1/diagnostics"));
  must(diagnostics.metrics.includes("nodehitch_build_info") && diagnostics.log.length > 0, "the controller says nothing of itself");
}

async function tokens() {
  const made = await good(operator.POST("/v1/tokens", { body: { name: "viewer", scope: "viewer" } }));
  const params = { path: { tokenId: made.token.id } };
  await good(operator.POST("/v1/tokens/{tokenId}/confirm", { params }));
  const list = await good(operator.GET("/v1/tokens", { params: { query: { limit: 100 } } }));
  must(list.items.some((token) => token.id === made.token.id), "the token is not in the list");
  const viewer = caller(made.secret);
  await good(viewer.GET("/v1/nodes"));
  const who = await good(viewer.GET("/v1/whoami"));
  must(who.token?.id === made.token.id && who.scope === "viewer", "the viewer is taken for another");
  await good(operator.DELETE("/v1/tokens/{tokenId}", { params }));
  const { error } = await viewer.GET("/v1/nodes");
  must(error?.type === "urn:nodehitch:problem:unauthorized", "a revoked token is good");
}

/** Sends a file as it is. */
function upload(vnfInstanceId: string, name: string, content: string) {
  return good(
    operator.PUT("/v1/vnf_instances/{vnfInstanceId}/files/{path}", {
      params: { path: { vnfInstanceId, path: name } },
      body: content,
      bodySerializer: (body) => body,
      headers: { "Content-Type": "application/octet-stream" },
    }),
  );
}

async function instances() {
  await good(operator.PUT("/v1/vnf_instances/{vnfInstanceId}", { params: { path, header: { "If-None-Match": "*" } }, body: spec }));
  const file = await upload(cluster, script, "#!/bin/sh\n");
  const got = await good(operator.GET("/v1/vnf_instances/{vnfInstanceId}/files/{path}", { params: { path: { ...path, path: script } }, parseAs: "text" }));
  must(got === "#!/bin/sh\n" && file.path === script, "another file comes back");

  const one = await operator.GET("/v1/vnf_instances/{vnfInstanceId}", { params: { path } });
  const known = one.response.headers.get("ETag") ?? "";
  must(one.data?.missingFiles.length === 0 && known !== "", "the instance misses a file, or has no ETag");
  // What GET shows can be sent back: the password is kept.
  const body = { additionalParams: one.data!.additionalParams };
  const plan = await good(operator.POST("/v1/vnf_instances/{vnfInstanceId}/plan", { params: { path }, body }));
  must(plan.nodes.length === 0 && plan.instance.desiredVersion === one.data!.desiredVersion, "the same parameters would change something");
  await good(operator.PUT("/v1/vnf_instances/{vnfInstanceId}", { params: { path, header: { "If-Match": known } }, body }));
  const { error } = await operator.DELETE("/v1/vnf_instances/{vnfInstanceId}", { params: { path, header: { "If-Match": '"another"' } } });
  must(error?.type === "urn:nodehitch:problem:precondition-failed", "If-Match is ignored");

  await upload(none, "Files/early.yaml", "early");
  await good(operator.DELETE("/v1/vnf_instances/{vnfInstanceId}/files/{path}", { params: { path: { vnfInstanceId: none, path: "Files/early.yaml" } } }));
  await good(operator.POST("/v1/vnf_instances/{vnfInstanceId}/confirm", { params: { path } }));
}

async function operations() {
  const started = await good(
    operator.POST("/v1/vnf_instances/{vnfInstanceId}/operations", {
      params: { path },
      body: { operation: "INSTANTIATE", phase: "START", idempotencyKey: "start" },
    }),
  );
  const { data } = await operator.GET("/v1/vnf_instances/{vnfInstanceId}/operations/{sequence}", {
    params: { path: { ...path, sequence: started.sequence }, query: { wait: "10s" } },
  });
  must(data?.state === "COMPLETED", `the operation is ${data?.state}`);
  for (const list of [
    await good(operator.GET("/v1/operations", { params: { query: { vnfInstanceId: cluster, state: "COMPLETED" } } })),
    await good(operator.GET("/v1/vnf_instances/{vnfInstanceId}/operations", { params: { path } })),
  ]) {
    must(list.items.length === 1 && list.items[0]?.id === started.id, "the operation is not in the list");
  }
  const ending = await good(
    operator.POST("/v1/vnf_instances/{vnfInstanceId}/operations", { params: { path }, body: { operation: "INSTANTIATE", phase: "END", partial: true } }),
  );
  const cancelled = await good(
    operator.POST("/v1/vnf_instances/{vnfInstanceId}/operations/{sequence}/cancel", { params: { path: { ...path, sequence: ending.sequence } } }),
  );
  must(cancelled.error?.type === "urn:nodehitch:problem:cancelled", `the cancelled operation has the error ${cancelled.error?.type}`);
}

/** Brings a machine into its instance, and returns the caller that it is then. */
async function enroll(vnfInstanceId: string, machine: Machine) {
  const join = await good(operator.GET("/v1/vnf_instances/{vnfInstanceId}/join_token", { params: { path: { vnfInstanceId } } }));
  const issued = await good(
    caller(join.token).POST("/v1/enroll", { body: { serverId: machine.serverId, certificateRequest: machine.certificateRequest } }),
  );
  const renewed = await good(
    caller(undefined, { cert: issued.certificate, key: machine.key }).POST("/v1/node/certificate", {
      body: { certificateRequest: machine.nextCertificateRequest },
    }),
  );
  return caller(undefined, { cert: renewed.certificate, key: machine.nextKey });
}

async function volumes() {
  const params = { path: { volumeId: volume } };
  const before = await good(operator.GET("/v1/volumes/{volumeId}", { params }));
  await good(operator.POST("/v1/volumes/{volumeId}/adopt", { params, body: { filesystemUuid: "6f9619ff-8b86-4d01-b42d-00cf4fc964ff" } }));
  await good(operator.POST("/v1/volumes/{volumeId}/reformat", { params, body: { confirmVolumeId: volume } }));
  const list = await good(operator.GET("/v1/volumes", { params: { query: { nodeId: input.storage.serverId } } }));
  must(list.items[0]?.reformatRequested === true && list.items[0].filesystemUuid === before.filesystemUuid, "the volume is not to be formatted");
}

async function node() {
  const agent = await enroll(cluster, input.storage);
  const config = await good(agent.GET("/v1/node/config"));
  must(config.role === "storage", `the node is a ${config.role}`);
  await good(
    agent.PUT("/v1/node/status", {
      body: { epoch: config.epoch, observedGeneration: config.generation, observedDigest: "x", conditions: [], facts: { hostname: "storage" } },
    }),
  );
  const permit = await good(
    agent.POST("/v1/node/volumes/{volumeId}/format", {
      params: { path: { volumeId: volume } },
      body: {
        phase: "wanted",
        sizeBytes: 1 << 30,
        filesystemUuid: config.storage!.volumes[0]!.filesystemUuid,
        blankCheck: { bytesRead: 1 << 20, samples: 64 },
      },
    }),
  );
  must(permit.overwrite === true, "the permit does not allow to overwrite");

  const nodes = await good(operator.GET("/v1/nodes", { params: { query: { role: "storage", state: "Enrolled", ready: false } } }));
  must(nodes.items.length === 1 && nodes.items[0]?.status?.facts.hostname === "storage", "the node is not in the list");
  const params = { path: { nodeId: input.storage.serverId } };
  const before = await good(operator.GET("/v1/events", { params: { query: { nodeId: input.storage.serverId } } }));
  must(before.items.some((event) => event.type === "Enrolled"), "the node has enrolled, and no event says so");
  await good(operator.POST("/v1/nodes/{nodeId}/revoke", { params }));
  const since = await good(operator.GET("/v1/events", { params: { query: { since: before.sequence, wait: "30s" } } }));
  must(since.items.some((event) => event.type === "Revoked"), "the node is revoked, and no event says so");
  await good(operator.POST("/v1/nodes/{nodeId}/reenroll", { params }));
  const shown = await good(operator.GET("/v1/nodes/{nodeId}", { params }));
  must(shown.state === "Expected", `the node is ${shown.state}`);
}

/** A registry's node reads a file of the package. */
async function files() {
  const params = { path: { vnfInstanceId: registry } };
  const topology = {
    servers: [{ id: input.registry.serverId, name: "registry", connectionPoints: [{ name: "CP1", addresses: ["10.10.0.6"] }] }],
  };
  const additionalParams = { private_registry_installation_param: { ssh_cp_name: "CP1", image_path: image } };
  await good(operator.PUT("/v1/vnf_instances/{vnfInstanceId}", { params, body: { additionalParams, topology } }));
  await upload(registry, image, input.image);
  const agent = await enroll(registry, input.registry);
  const config = await good(agent.GET("/v1/node/config"));
  const sha256 = config.registry!.image.file!.sha256;
  const got = await good(agent.GET("/v1/node/files/{sha256}", { params: { path: { sha256 } }, parseAs: "text" }));
  must(got === input.image, "another file comes back");
  await good(operator.POST("/v1/nodes/{nodeId}/revoke", { params: { path: { nodeId: input.registry.serverId } } }));
}

/** A master that is a member of its cluster says how a VIM uses it. */
async function access() {
  const params = { path: { vnfInstanceId: joined } };
  const topology = {
    servers: [{ id: input.master.serverId, name: "master", connectionPoints: [{ name: "master_CP", addresses: ["10.10.0.7"] }] }],
  };
  const additionalParams = {
    k8s_cluster_installation_param: {
      script_path: script,
      master_node: { ssh_cp_name: "master_CP", cluster_cp_name: "master_CP" },
      worker_node: { ssh_cp_name: "worker_CP" },
      cluster_members: {},
    },
  };
  await good(operator.PUT("/v1/vnf_instances/{vnfInstanceId}", { params, body: { additionalParams, topology } }));
  const agent = await enroll(joined, input.master);
  const { data: config, response } = await agent.GET("/v1/node/config", { params: { header: { "Nodehitch-Agent": 'v1; sections="cluster proxy"' } } });
  const { epoch, generation } = config!;
  await good(
    agent.PUT("/v1/node/status", {
      body: {
        epoch,
        observedGeneration: generation,
        observedDigest: (response.headers.get("ETag") ?? "").replaceAll('"', ""),
        conditions: [
          { type: "ClusterMember", status: "True", reason: "Joined", observedGeneration: generation, lastTransitionTime: new Date().toISOString() },
        ],
        facts: {},
        cluster: { caCertificateHash: `sha256:${"0".repeat(64)}`, caCertificate: "PEM", token: "a.b.c" },
      },
    }),
  );
  const access = await good(operator.GET("/v1/vnf_instances/{vnfInstanceId}/cluster_access", { params }));
  must(access.token === "a.b.c" && access.endpoint === "10.10.0.7:6443", `the access is at ${access.endpoint}`);
  await good(operator.POST("/v1/nodes/{nodeId}/revoke", { params: { path: { nodeId: input.master.serverId } } }));
  await good(operator.DELETE("/v1/vnf_instances/{vnfInstanceId}", { params }));
}

/** Follows the pages of the instances, one on each. */
async function pages() {
  const ids: string[] = [];
  for (let marker: string | undefined, more = true; more; ) {
    const { data, response } = await operator.GET("/v1/vnf_instances", { params: { query: { limit: 1, marker } } });
    ids.push(...data!.items.map((instance) => instance.id));
    const next = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link") ?? "");
    marker = next ? (new URL(next[1]!, input.url).searchParams.get("marker") ?? undefined) : undefined;
    more = next !== null;
  }
  must(ids.join() === [cluster, registry].join(), `the pages have ${ids}`);
}

/** An upgrade of the agents is asked for, and paused. */
async function agents() {
  const begun = await good(operator.POST("/v1/agents/upgrade", { body: {} }));
  must(begun.startedAt !== undefined, `the upgrade is ${begun.state}`);
  await good(operator.POST("/v1/agents/pause"));
  const shown = await good(operator.GET("/v1/agents"));
  must(shown.version === begun.version, `${shown.version} is wanted instead of ${begun.version}`);
}

async function end() {
  const backup = await good(operator.GET("/v1/backup", { parseAs: "arrayBuffer" }));
  must((backup as unknown as ArrayBuffer).byteLength > 0, "the backup is empty");
  for (const vnfInstanceId of [cluster, registry]) {
    await good(operator.DELETE("/v1/vnf_instances/{vnfInstanceId}", { params: { path: { vnfInstanceId } } }));
  }
}

for (const part of [about, tokens, instances, operations, volumes, node, files, access, pages, agents, end]) {
  await part();
}
