/** The pull worker: holds the sockets, runs jobs, renews leases, keeps results until they are acknowledged. */
export * from './clock.ts';
export * from './configuration.ts';
export * from './heartbeat.ts';
export * from './main.ts';
export * from './socket.ts';
export * from './spool.ts';
export * from './worker.ts';
export * from './world.ts';
