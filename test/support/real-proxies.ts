import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { ensureProxies, type Proxies } from '../../scripts/proxies/setup.ts';
import { until } from './poll.ts';
import { freePort } from './ports.ts';
import { type Child, startProcess } from './processes.ts';
import { stateFolder } from './road.ts';

/** Proxies of Debian's packages, each as a process of its test. */

/** A name that stands for this machine at the proxy alone: programs that do not go through it find nothing. */
export const FAR_HOST = 'queue.test';

/** In a mount namespace it has a file of hosts to itself. */
const NAMESPACE = ['--user', '--map-root-user', '--mount'];

/** Null: they can run here, else why not. */
export const whyNoProxies = (): string | null => {
  if (spawnSync('apt-get', ['--version']).status !== 0) return 'there is no apt-get';
  if (spawnSync('openssl', ['version']).status !== 0) return 'there is no openssl';
  if (spawnSync('unshare', [...NAMESPACE, 'true']).status !== 0) return 'namespaces are not allowed';
  return null;
};

/** A certificate for the name that the proxy alone knows, signed by itself. */
export function makeCertificate(): { key: string; certificate: string } {
  const folder = stateFolder();
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...['-subj', `/CN=${FAR_HOST}`, '-addext', `subjectAltName=DNS:${FAR_HOST}`],
    ...['-keyout', key, '-out', certificate],
  ]);
  if (made.status !== 0) throw new Error(`openssl made no certificate: ${made.stderr}`);
  return { key, certificate };
}

let programs: Promise<Proxies> | undefined;
const installed = () => {
  programs ??= ensureProxies();
  return programs;
};

export interface RunningProxy {
  port: number;
  process: Child;
}

/** Opens tunnels and forwards HTTP. @param login `user password`, which it then asks for */
export async function startTinyproxy(login?: string): Promise<RunningProxy> {
  const { tinyproxy, env } = await installed();
  const folder = stateFolder();
  const port = await freePort();
  const hosts = join(folder, 'hosts');
  writeFileSync(hosts, `127.0.0.1 localhost ${FAR_HOST}\n`);
  const config = join(folder, 'tinyproxy.conf');
  const lines = [
    `Port ${port}`,
    'Listen 127.0.0.1',
    'LogLevel Info',
    ...(login ? [`BasicAuth ${login}`] : []),
  ];
  writeFileSync(config, `${lines.join('\n')}\n`);
  const script = 'mount --bind "$0" /etc/hosts && exec "$1" -d -c "$2"';
  const process = startProcess('unshare', [...NAMESPACE, 'sh', '-c', script, hosts, tinyproxy, config], {
    env,
    name: 'tinyproxy',
  });
  await listening(port);
  return { port, process };
}

async function listening(port: number): Promise<void> {
  const tried = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
      socket.on('connect', () => socket.destroy());
    });
  await until(tried, `something listens at ${port}`);
}

/** A server block in front of a queue, by nginx' defaults otherwise. @param more lines of it */
export async function startNginx(
  queuePort: number,
  tls?: { key: string; certificate: string },
): Promise<RunningProxy> {
  const { nginx, env } = await installed();
  const folder = stateFolder();
  const port = await freePort();
  const encrypted = tls ? `ssl_certificate ${tls.certificate}; ssl_certificate_key ${tls.key};` : '';
  const config = join(folder, 'nginx.conf');
  writeFileSync(
    config,
    `daemon off;
pid ${folder}/pid;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  map $http_upgrade $connection_upgrade { default upgrade; '' close; }
  server {
    listen 127.0.0.1:${port}${tls ? ' ssl' : ''};
    ${encrypted}
    location / {
      proxy_pass http://127.0.0.1:${queuePort};
    }
    # WebSockets need more than its defaults, which answer callers over HTTP/1.0 from buffers.
    location ~ ^/(ws|answers) {
      proxy_pass http://127.0.0.1:${queuePort};
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }
  }
}
`,
  );
  const process = startProcess(nginx, ['-p', folder, '-e', 'stderr', '-g', 'user root;', '-c', config], {
    env,
    name: 'nginx',
  });
  await listening(port);
  return { port, process };
}

/** In front of a queue, whose health it asks for. @param check lines of its backend */
export async function startHaproxy(queuePort: number, check: string[]): Promise<RunningProxy> {
  const { haproxy, env } = await installed();
  const port = await freePort();
  const config = join(stateFolder(), 'haproxy.cfg');
  writeFileSync(
    config,
    `global
  log stderr format raw daemon
defaults
  mode http
  log global
  option log-health-checks
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout check 30s
listen queue
  bind 127.0.0.1:${port}
${check.map((line) => `  ${line}\n`).join('')}  server queue 127.0.0.1:${queuePort} check inter 100ms
`,
  );
  const process = startProcess(haproxy, ['-db', '-f', config], { env, name: 'haproxy' });
  await listening(port);
  return { port, process };
}
