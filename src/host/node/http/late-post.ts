import type { Post } from '../../../durable/host.ts';

/**
 * Makes the function that posts, whose module is loaded with the first post: it takes 19 MB, and most gateways post
 * nothing.
 */
export function latePost(): Post {
  let made: Promise<Post> | null = null;
  return (reach) => async (url, init) => {
    made ??= import('./post.ts').then(({ createPost }) => createPost());
    return (await made)(reach)(url, init);
  };
}
