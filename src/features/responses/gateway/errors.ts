import { HttpError } from '../../../gateway/errors.ts';

export function noResponse(id: string): HttpError {
  return new HttpError(404, `Response with id '${id.slice(0, 128)}' not found.`, 'response_not_found');
}
