import { EXIT, UserError } from '../../process/index.ts';

/** Turns an error of listening into one that says the cause and what to do. Any other error stays as it is. */
export function listenError(error: unknown, { host, port }: { host: string; port: number }): unknown {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  const place = `${host}:${port}`;
  if (code === 'EADDRINUSE') {
    return new UserError(
      `Port ${port} on ${host} is in use. ` +
        'Stop what listens there, or choose another port (QUEUE_PORT or --port).',
      EXIT.portInUse,
    );
  }
  if (syscall === 'getaddrinfo') {
    return new UserError(
      `Cannot listen on ${place}: no address of this name is known here. Choose another --host (QUEUE_HOST).`,
    );
  }
  if (syscall === 'listen' || syscall === 'bind') {
    return new UserError(`Cannot listen on ${place}: ${message}. Choose another --host or --port.`);
  }
  return error;
}
