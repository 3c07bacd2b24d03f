// Package remote runs environments over HTTP, in the two protocols of the original
// systems, so that client or server may be the Python original.
//
//	protocol  routes                                   body        state
//	Lite      /health /sessions /connect /call         multipart   a session per environment,
//	                                                               named by the server
//	legacy    /health /environments /batch/…           JSON        environments named by the
//	          /reset/ID /step/ID … /close/ID                       client
//
// A Server is an http.Handler that hosts environments for one protocol or both. It
// sends the same messages as the original services: the environment's info
// dictionary is rebuilt from its env.Outcome, see Informer.
//
// A Client and a LegacyClient implement env.Env with an environment that a service
// hosts. FromConfig and LegacyFromConfig create them from named options, for a
// registry:
//
//	r.Register("remote", remote.FromConfig)
//	r.Register("remote_legacy", remote.LegacyFromConfig)
//
// # Many services
//
// Clients may be given many base URLs. Each session is opened at the service that has the
// fewest sessions of this process; a service that does not answer is left out until it does,
// for all clients of the process: see hosts.Pool. A session stays where it was opened. If its
// service ends, the episode has to be started again with Reset, as package rollout does with
// rollout.DefaultRetry.
//
// # Retries
//
// The original client repeats every request that fails, including steps that the
// service may have played. This client repeats only requests that cannot change the episode:
// those that did not reach the service or were refused before they ran, the creation
// of an environment, system prompts and resets. ClientOptions.Resend and
// ClientOptions.Python allow more. If the answer to the opening of a session is lost
// and the opening is repeated, the first session remains unused; services close idle
// sessions after some time.
//
// # Text
//
// Texts are sent as JSON in UTF-8. Bytes of a response that are not UTF-8 are received
// as U+FFFD.
package remote
