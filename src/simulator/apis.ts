import { type ApiError, permissionDenied } from './errors.ts';
import { messageShapes, readMessages } from './messages.ts';
import { type GenerationRequest, readBatch, readChat, readCompletion } from './requests.ts';
import { type KeptResponses, readResponses, responseShapes } from './responses.ts';
import { chatShapes, completionShapes, type Shapes } from './shapes.ts';
import { readTokens, tokenShapes } from './tokens.ts';

type Body = Record<string, unknown>;

/** An API for generation, which reads its bodies and writes its answers. */
interface Api {
  shapes: Shapes;
  read(body: Body, servedNames: readonly string[]): GenerationRequest;
}

/** Chooses the API for a body. */
export type ApiOf = (body: Body) => Api;

/** Returns the routes that generate. @param isScaledOut whether those of `--enable-scale-out` are allowed */
export function generatingApis(kept: KeptResponses, isScaledOut: boolean): Record<string, ApiOf> {
  const chat = { shapes: chatShapes, read: readChat };
  const completion = { shapes: completionShapes, read: readCompletion };
  return {
    '/v1/chat/completions': () => chat,
    '/v1/chat/completions/batch': () => ({ shapes: chatShapes, read: readBatch }),
    '/v1/completions': () => completion,
    '/v1/messages': () => ({ shapes: messageShapes, read: readMessages }),
    '/v1/responses': () => ({ shapes: responseShapes(kept), read: readResponses }),
    '/inference/v1/generate': (body) => {
      if (!isScaledOut) throw scaleOutDisabled();
      return { shapes: tokenShapes(body.return_token_ids === true), read: readTokens };
    },
    '/invocations': (body) => ('messages' in body ? chat : completion),
  };
}

function scaleOutDisabled(): ApiError {
  const how = 'Restart vllm serve with --enable-scale-out to enable them.';
  return permissionDenied(`Scale-out endpoints are disabled. ${how}`);
}
