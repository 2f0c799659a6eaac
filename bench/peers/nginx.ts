import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Peer } from './peer.ts';

/** The floor: it passes bytes on and knows nothing of requests. */
export const nginx: Peer = {
  name: 'nginx',
  program: '/usr/sbin/nginx',
  commands({ engineUrl, port, folder }) {
    const file = join(folder, 'nginx.conf');
    writeFileSync(file, configuration(new URL(engineUrl).host, port, folder));
    return [{ program: this.program, args: ['-p', folder, '-c', file] }];
  },
};

/** Without buffers, or a stream would arrive in pieces of 8 KiB; with connections that are kept. */
function configuration(engine: string, port: number, folder: string): string {
  return `
daemon off;
worker_processes auto;
pid ${folder}/pid;
error_log ${folder}/error.log;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  upstream engine { server ${engine}; keepalive 256; }
  server {
    listen 127.0.0.1:${port};
    keepalive_requests 1000000;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`;
}
