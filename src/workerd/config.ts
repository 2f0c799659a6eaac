/**
 * The configuration `workerd serve` reads: one worker with the classes of its objects,
 * stored on local disk. deploy/cloudflare/wrangler.jsonc is the same for Cloudflare.
 */

/** Behaviour of the runtime is pinned to this date; raise it together with that. */
export const COMPATIBILITY_DATE = '2026-11-01';

/**
 * A caller that hangs up is seen by the gateway, and by the relay object it was passed to. Messages of WebSockets are
 * not compressed: it would cost more than what they say.
 */
export const COMPATIBILITY_FLAGS = [
  'enable_request_signal',
  'request_signal_passthrough',
  'no_web_socket_compression',
];

/**
 * V8's young generation, 16 MB left to itself, from which it derives at what size it collects everything: pauses of
 * 30 ms instead of 75 to 290 (docs/decisions/workerd-memory.md).
 */
const V8_FLAGS = ['--max-semi-space-size=4'];

/** The name of the one listening socket in the configuration and in workerd's control messages. */
export const SOCKET_NAME = 'http';

export interface WorkerdConfig {
  /** `host:port`; port 0 lets the system choose. */
  address: string;
  /** Absolute folder of the objects' databases. */
  dataDir: string;
  /** Names of the files beside the configuration file that are its modules: the code, and the page's files. */
  modules: { main: string; dashboard: string };
  /** Variables of workerd's own environment that the worker sees under the same name. */
  variables: string[];
  /** Authorities, as PEM, by which the hosts that it calls are known. */
  trustedCertificates: string[];
}

/** The configuration as Cap'n Proto text. */
export function workerdConfig(config: WorkerdConfig): string {
  const variables = config.variables.map(
    (name) => `        (name = ${text(name)}, fromEnvironment = ${text(name)}),`,
  );
  const certificates = config.trustedCertificates.map((pem) => `  ${text(pem)},`);
  return `using Workerd = import "/workerd/workerd.capnp";

# Not workerd's own trust in what the machine has: without any certificate there it would not start.
const tls :Workerd.TlsOptions = (trustedCertificates = [
${certificates.join('\n')}
]);

const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [
        (name = ${text(config.modules.main)}, esModule = embed ${text(config.modules.main)}),
        (name = ${text(config.modules.dashboard)}, data = embed ${text(config.modules.dashboard)}),
      ],
      compatibilityDate = ${text(COMPATIBILITY_DATE)},
      compatibilityFlags = [${COMPATIBILITY_FLAGS.map(text).join(', ')}],
      # A uniqueKey names the folder of its objects: changing one loses every job.
      durableObjectNamespaces = [
        (className = "QueueObject", uniqueKey = "worker-vllm-queue", enableSql = true),
        (className = "RelayObject", uniqueKey = "worker-vllm-relay", enableSql = true),
        (className = "FleetObject", uniqueKey = "worker-vllm-fleet", enableSql = true),
        (className = "BatchesObject", uniqueKey = "worker-vllm-batches", enableSql = true),
        (className = "FileObject", uniqueKey = "worker-vllm-file", enableSql = true),
      ],
      durableObjectStorage = (localDisk = "data"),
      bindings = [
        (name = "QUEUE", durableObjectNamespace = "QueueObject"),
        (name = "RELAY", durableObjectNamespace = "RelayObject"),
        (name = "FLEET", durableObjectNamespace = "FleetObject"),
        (name = "BATCHES", durableObjectNamespace = "BatchesObject"),
        (name = "FILE", durableObjectNamespace = "FileObject"),
        (name = "PRIVATE_NETWORK", service = "private-network"),
${variables.join('\n')}
      ],
    )),
    # Requests from the code reach public addresses alone, but for these: webhooks to hosts that the operator named.
    (name = "internet", network = (allow = ["public"], tlsOptions = .tls)),
    (name = "private-network", network = (allow = ["public", "private"], tlsOptions = .tls)),
    (name = "data", disk = (path = ${text(config.dataDir)}, writable = true)),
  ],
  v8Flags = [${V8_FLAGS.map(text).join(', ')}],
  sockets = [(name = ${text(SOCKET_NAME)}, address = ${text(config.address)}, http = (), service = "main")],
);
`;
}

/** A Cap'n Proto text literal. */
function text(value: string): string {
  return JSON.stringify(value);
}
