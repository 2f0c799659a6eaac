/**
 * Exports every message that queue, workers, programs and gateway exchange, as schemas with their types; no I/O.
 * docs/protocol.md describes the conversation.
 */
export * from './adapters.ts';
export * from './alerts.ts';
export * from './answer-end.ts';
export * from './answers.ts';
export * from './api-errors.ts';
export * from './audit.ts';
export * from './base.ts';
export * from './batch-lines.ts';
export * as bounds from './bounds.ts';
export * from './buckets.ts';
export * from './bytes.ts';
export * from './client-frames.ts';
export * from './engine-routes.ts';
export * from './engines.ts';
export * from './event-stream.ts';
export * from './fields.ts';
export * from './file-keys.ts';
export * from './fleet-view.ts';
export * from './jobs.ts';
export * from './json-edit.ts';
export * from './json-text.ts';
export * from './kept-json.ts';
export * from './moves.ts';
export * from './multipart.ts';
export * from './parse.ts';
export * from './payloads.ts';
export * from './problem-kinds.ts';
export * from './queue-frames.ts';
export * from './record-headers.ts';
export * from './request-headers.ts';
export * from './request-outcomes.ts';
export * from './request-record.ts';
export * from './scaling.ts';
export * from './schema-words.ts';
export * from './stream-ids.ts';
export * from './telemetry.ts';
export * from './text.ts';
export * from './time-ordered-id.ts';
export * from './token-terms.ts';
export * from './tokens.ts';
export * from './waiting.ts';
export * from './worker-frames.ts';
