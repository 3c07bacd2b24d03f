// Package openenv speaks the protocol of OpenEnv 0.10.0: a Server hosts an environment for
// OpenEnv's clients, and a Client plays an environment that an OpenEnv server hosts.
//
// One WebSocket connection at /ws is one session, with one request at a time in JSON text
// frames: reset, step, state, mcp and close. The routes over HTTP are /health, /metadata, /schema,
// /openapi.json, /reset, /step, /state, /mcp, /list_environments, and /openenv.yaml, the
// manifest of a container.
//
// A Server's action has one field, response, the text that the model wrote. Its observation has
// text, with one mark per image, and images, base64 PNG or JPEG; metadata has success,
// turn_metrics and traj_metrics. The system prompt is the readme_content of /metadata.
//
// A Client reads a response as an action by the server's schema, and makes text and images of
// an observation by path expressions; see FromConfig.
package openenv
