// Package remote plays environments over HTTP, in the two protocols of the
// original systems, so that either side may be Python.
//
//	protocol  routes                                   body        state
//	Lite      /health /sessions /connect /call         multipart   a session per environment,
//	                                                               named by the server
//	legacy    /health /environments /batch/…           JSON        environments named by the
//	          /reset/ID /step/ID … /close/ID                       client
//
// A Server is an http.Handler that hosts environments for either protocol or
// both. What it sends is what the original services send: the environment's info
// dictionary is rebuilt from its env.Outcome, see Informer.
//
// A Client and a LegacyClient are environments themselves: they implement
// env.Env and play one that a service hosts. FromConfig and LegacyFromConfig make
// them from named options, and are what a registry needs:
//
//	r.Register("remote", remote.FromConfig)
//	r.Register("remote_legacy", remote.LegacyFromConfig)
//
// # What is sent again
//
// The original client repeats every request that fails, also a step that may have
// been played. Here only that is repeated which cannot change the episode:
// requests that never reached the service or were refused before they ran, the
// making of an environment, system prompts and resets. ClientOptions.Resend and
// ClientOptions.Python allow more. A session whose opening was repeated because
// its answer got lost stays behind unused; services close such sessions when they
// have been idle for long enough.
//
// # Text
//
// Texts travel as JSON in UTF-8. Bytes of a response that are not UTF-8 reach the
// other side as U+FFFD.
package remote
