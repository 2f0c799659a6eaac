import { HttpError } from '../../../gateway/errors.ts';
import { shortName } from '../../../protocol/index.ts';

export function noResponse(id: string): HttpError {
  return new HttpError(404, `Response with id '${id.slice(0, 128)}' not found.`, 'response_not_found');
}

/** Refuses a response in the background that no worker can make. @param model null: the request names none */
export function unserved(model: string | null): HttpError {
  const advice = 'GET /v1/models lists the models that are served.';
  return model === null
    ? new HttpError(
        400,
        `Name a model: the queue cannot tell which one is meant. ${advice}`,
        'model_required',
      )
    : new HttpError(404, `The model "${shortName(model)}" is not served here. ${advice}`, 'model_not_found');
}
