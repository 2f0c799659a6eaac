import { type Gateway, route } from '../../../gateway/routes/route.ts';
import * as conversations from './conversations.ts';
import { ITEMS } from './routes.ts';

const ADDED = { items: [{ type: 'message', role: 'user', content: 'Hello' }] };

/** Registers OpenAI's Conversations API. */
export function conversationRoutes(app: Gateway): void {
  route(app, {
    method: 'POST',
    path: '/v1/conversations',
    tag: 'Inference',
    summary: 'Makes a conversation, with up to 20 items',
    scopes: ['submit'],
    body: { example: { metadata: { topic: 'demo' }, ...ADDED } },
    answers: { 200: { description: 'The conversation.', content: {} } },
    errors: [400, 408, 413, 503],
    handler: (context) => conversations.createConversation(context),
  });
  route(app, {
    method: 'GET',
    path: '/v1/conversations/:id',
    tag: 'Inference',
    summary: 'A conversation',
    scopes: ['submit'],
    answers: { 200: { description: 'The conversation.', content: {} } },
    errors: [404, 503],
    handler: (context) => conversations.getConversation(context),
  });
  route(app, {
    method: 'POST',
    path: '/v1/conversations/:id',
    tag: 'Inference',
    summary: 'The metadata of a conversation is changed',
    scopes: ['submit'],
    body: { example: { metadata: { topic: 'demo' } } },
    answers: { 200: { description: 'The conversation.', content: {} } },
    errors: [400, 404, 408, 413, 503],
    handler: (context) => conversations.changeConversation(context),
  });
  route(app, {
    method: 'DELETE',
    path: '/v1/conversations/:id',
    tag: 'Inference',
    summary: 'A conversation is deleted; its items stay with the stored responses that have them',
    scopes: ['submit'],
    answers: { 200: { description: 'It is deleted.', content: {} } },
    errors: [400, 404, 503],
    handler: (context) => conversations.deleteConversation(context),
  });
  route(app, {
    method: 'POST',
    path: '/v1/conversations/:id/items',
    tag: 'Inference',
    summary: 'Up to 20 items are added to a conversation',
    scopes: ['submit'],
    body: { example: ADDED },
    answers: { 200: { description: 'The items.', content: {} } },
    errors: [400, 404, 408, 409, 413, 503],
    handler: (context) => conversations.addItems(context),
  });
  route(app, {
    method: 'GET',
    path: '/v1/conversations/:id/items',
    tag: 'Inference',
    summary: 'The items of a conversation',
    scopes: ['submit'],
    query: ITEMS,
    answers: { 200: { description: 'A page.', content: {} } },
    errors: [400, 404, 503],
    handler: (context) => conversations.listConversationItems(context),
  });
  route(app, {
    method: 'GET',
    path: '/v1/conversations/:id/items/:item',
    tag: 'Inference',
    summary: 'An item of a conversation',
    scopes: ['submit'],
    answers: { 200: { description: 'The item.', content: {} } },
    errors: [404, 503],
    handler: (context) => conversations.getItem(context),
  });
  route(app, {
    method: 'DELETE',
    path: '/v1/conversations/:id/items/:item',
    tag: 'Inference',
    summary: 'An item is taken out of a conversation',
    scopes: ['submit'],
    answers: { 200: { description: 'The conversation.', content: {} } },
    errors: [400, 404, 503],
    handler: (context) => conversations.deleteItem(context),
  });
}
