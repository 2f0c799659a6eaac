/**
 * Every message both sides say, as schemas with their types; no I/O.
 * docs/protocol.md describes the conversation.
 */
export * from './adapters.ts';
export * from './answers.ts';
export * from './api-errors.ts';
export * from './audit.ts';
export * from './base.ts';
export * from './batch-lines.ts';
export * from './buckets.ts';
export * from './chat.ts';
export * from './client-frames.ts';
export * from './close-codes.ts';
export * from './engine-routes.ts';
export * from './event-stream.ts';
export * from './failures.ts';
export * from './fields.ts';
export * from './file-keys.ts';
export * from './fleet-view.ts';
export * from './frame-messages.ts';
export * from './heartbeat.ts';
export * from './job-answers.ts';
export * from './jobs.ts';
export * from './join-bytes.ts';
export * from './json-scan.ts';
export * as limits from './limits.ts';
export * from './moves.ts';
export * from './multipart.ts';
export * from './nulls.ts';
export * from './optimisations.ts';
export * from './packed-request.ts';
export * from './parse.ts';
export * from './patterns.ts';
export * from './queue-frames.ts';
export * from './request-headers.ts';
export * from './request-outcomes.ts';
export * from './request-record.ts';
export * from './runpod.ts';
export * from './runpod-job.ts';
export * from './scaling.ts';
export * from './sharing.ts';
export * from './sign-in.ts';
export * from './telemetry.ts';
export * from './text.ts';
export * from './token-limits.ts';
export * from './token-view.ts';
export * from './trace-context.ts';
export * from './worker-frames.ts';
