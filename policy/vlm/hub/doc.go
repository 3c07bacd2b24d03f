// Package hub fetches models from the Hugging Face hub by their id.
//
// Files are stored in the user's cache folder, by the commit of a revision. An
// interrupted download is resumed. A file gets its name only after its checksum
// agrees with the one that the hub publishes (SHA-256 of large files, git's object id
// of small ones), so a file with its final name is complete. A revision that was
// fetched before is found without a network.
package hub
