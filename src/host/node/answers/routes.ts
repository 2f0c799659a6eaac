import { type Gateway, requireUpgrade } from '../../../gateway/routes/route.ts';
import { PEER_PATH, type Peers } from './peers.ts';

/** Returns the function that registers the route at which other processes dial this one. */
export function peerRoute(peers: () => Peers): (app: Gateway) => void {
  return (app) => {
    app.get(PEER_PATH, (context) => {
      requireUpgrade(context, 'This address is for WebSocket connections of other processes of this queue.');
      return peers().accept(context.req.raw);
    });
  };
}
