import { getCACertificates } from 'node:tls';

/**
 * Whom the queue trusts where it calls somebody else by TLS, as PEM: the authorities that Node brings, those of this
 * machine, and those in `NODE_EXTRA_CA_CERTS`. workerd by itself knows those of the machine alone, and does not start
 * on one that has none, as slim images have none.
 */
export function trustedCertificates(): string[] {
  return [...new Set([...getCACertificates('default'), ...getCACertificates('system')])];
}
