// Package hub fetches models from the Hugging Face hub by their id: Fetch downloads one,
// Cached finds one that was downloaded before.
//
// Files are stored in the user's cache folder, by the commit of a revision. Interrupted
// downloads are resumed. A file gets its final name only after its checksum equals the one
// that the hub publishes (SHA-256 of large files, git's object id of small ones). A
// revision that was fetched before is found without a network.
package hub
