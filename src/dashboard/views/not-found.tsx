import { href, path } from '../router.ts';

/** Shows that the page has no such address. */
export function NotFoundView() {
  const wanted = decoded(path.value);
  const id = wanted.split('/').at(-1)!;
  return (
    <section class="view" aria-labelledby="not-found-title">
      <h1 id="not-found-title">There is no such page</h1>
      <p class="notice">
        Nothing is at <code>/{wanted}</code>. The address may be mistyped, or from another version.
      </p>
      <ul class="ways">
        <li>
          <a href={href('')}>The fleet</a>
        </li>
        <li>
          <a href={href(`requests?id=${encodeURIComponent(id)}`)}>
            Requests whose id begins with <span class="id">{id}</span>
          </a>
        </li>
        <li>
          <a href={href(`workers/${encodeURIComponent(id)}`)}>
            The worker <span class="id">{id}</span>
          </a>
        </li>
      </ul>
    </section>
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
