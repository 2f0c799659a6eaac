import { isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Agent, buildConnector, Client, Dispatcher, ProxyAgent, setGlobalDispatcher } from 'undici';
import { type ChooseProxy, type HttpProxy, portOf } from './proxies.ts';

/** A proxy may take this many ms to open a tunnel to a server. */
const TUNNEL_WITHIN_MS = 10_000;

/** The reasons, with the next step, why a proxy that answers with one of these statuses opens no tunnel. */
const REFUSALS: Record<number, string> = {
  403: 'its rules forbid that; let its operator allow it',
  407: 'it asks for a user name and a password, or for other ones: write them into its address, http://name:password@host:port',
};

/**
 * Opens a connection to a server through a proxy (CONNECT, RFC 9110 §9.3.6).
 * @throws Error that names the proxy
 */
async function tunnel(proxy: HttpProxy, host: string): Promise<Socket> {
  const { origin, username, password } = proxy.url;
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const authorization = username && {
    'proxy-authorization': `Basic ${Buffer.from(pair).toString('base64')}`,
  };
  const client = new Client(origin, { allowH2: false });
  try {
    const answer = await client.connect({
      path: host,
      headers: { host, ...authorization },
      signal: AbortSignal.timeout(TUNNEL_WITHIN_MS),
    });
    const { statusCode } = answer;
    const socket = answer.socket as Socket;
    if (statusCode >= 200 && statusCode < 300) return socket;
    socket.destroy();
    throw new Error(`HTTP ${statusCode}${REFUSALS[statusCode] ? `: ${REFUSALS[statusCode]}` : ''}`);
  } catch (error) {
    void client.destroy();
    const { message, code } = error as NodeJS.ErrnoException;
    const why = message || code || 'it cannot be reached';
    throw new Error(`the proxy ${proxy.shown} (${proxy.variable}) opens no way to ${host}: ${why}`);
  }
}

/** Returns a function with which `ws` opens the connection of a WebSocket through a proxy. */
export function tunnelled(proxy: HttpProxy, target: URL) {
  return (_options: unknown, connected: (error: Error | null, socket: Socket) => void): undefined => {
    const { hostname, protocol } = target;
    const none = undefined as unknown as Socket;
    tunnel(proxy, `${hostname}:${portOf(target)}`).then(
      (socket) => {
        const isEncrypted = protocol === 'wss:';
        // Node compares the certificate with the host, even with an address, which TLS does not name.
        const host = hostname.replace(/^\[(.*)\]$/, '$1');
        connected(
          null,
          isEncrypted ? connectTls({ socket, host, servername: isIP(host) === 0 ? host : '' }) : socket,
        );
      },
      (error) => connected(error, none),
    );
  };
}

/**
 * Sends each request through its proxy or, if it has none, straight to its server. Encrypted requests and upgrades go
 * through a tunnel; the proxy forwards plain HTTP, since proxies open no tunnels to port 80.
 */
class ProxyDispatcher extends Dispatcher {
  readonly #choose: ChooseProxy;
  readonly #direct: Agent;
  readonly #made = new Map<string, Dispatcher>();

  constructor(choose: ChooseProxy, options: Agent.Options) {
    super();
    this.#choose = choose;
    this.#direct = new Agent(options);
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { origin, upgrade } = options;
    const proxy = origin === undefined ? null : this.#choose(origin);
    if (proxy === null) return this.#direct.dispatch(options, handler);
    const isForwarded = !upgrade && new URL(origin as string | URL).protocol === 'http:';
    return this.#through(proxy, isForwarded).dispatch(options, handler);
  }

  #through(proxy: HttpProxy, isForwarded: boolean): Dispatcher {
    const key = `${isForwarded} ${proxy.url.href}`;
    let made = this.#made.get(key);
    if (!made) {
      made = isForwarded
        ? new ProxyAgent({ uri: proxy.url.href, proxyTunnel: false })
        : new Agent({ allowH2: false, connect: tunnelConnector(proxy) });
      this.#made.set(key, made);
    }
    return made;
  }

  override async close(): Promise<void> {
    await Promise.all([this.#direct, ...this.#made.values()].map((one) => one.close()));
  }

  override async destroy(): Promise<void> {
    await Promise.all([this.#direct, ...this.#made.values()].map((one) => one.destroy()));
  }
}

/** Returns an IPv6 address with the brackets that undici removes. */
function bracketed(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}

function tunnelConnector(proxy: HttpProxy): buildConnector.connector {
  const encrypt = buildConnector({ allowH2: false });
  return (options, callback) => {
    const { hostname, port, protocol } = options;
    const host = `${bracketed(hostname)}:${port || (protocol === 'https:' ? 443 : 80)}`;
    tunnel(proxy, host).then(
      (socket) => {
        if (protocol !== 'https:') return callback(null, socket);
        encrypt({ ...options, httpSocket: socket } as never, callback);
      },
      (error) => callback(error, null),
    );
  };
}

/** Returns a dispatcher for undici that uses the proxies of the environment. */
export function proxyDispatcher(choose: ChooseProxy, options: Agent.Options = {}): Dispatcher {
  return new ProxyDispatcher(choose, options);
}

/** Lets `fetch` and `WebSocket` of this process use the proxies from now on. */
export function useForFetch(choose: ChooseProxy): void {
  setGlobalDispatcher(proxyDispatcher(choose));
}
