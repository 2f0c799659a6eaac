import { EXIT, UserError } from '../../process/index.ts';

interface Listening {
  host: string;
  port: number;
}

/**
 * Turns an error of listening into one that states the cause and the remedy. Any other error stays as it is.
 * @param prefix of the variables with the address
 */
export function listenError(error: unknown, { host, port }: Listening, prefix: 'QUEUE' | 'GATEWAY'): unknown {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  const place = `${host}:${port}`;
  if (code === 'EADDRINUSE') {
    return new UserError(
      `Port ${port} on ${host} is in use. ` +
        `Stop what listens there, or choose another port (${prefix}_PORT or --port).`,
      EXIT.portInUse,
    );
  }
  if (syscall === 'getaddrinfo') {
    return new UserError(
      `Cannot listen on ${place}: no address of this name is known here. Choose another --host (${prefix}_HOST).`,
    );
  }
  if (syscall === 'listen' || syscall === 'bind') {
    return new UserError(`Cannot listen on ${place}: ${message}. Choose another --host or --port.`);
  }
  return error;
}
