// Package hub fetches models from the Hugging Face hub by their id.
//
// Files are kept under a folder of the user's cache, by the commit that a
// revision stands for. A download that broke off goes on where it ended; what has
// arrived is held against the checksum that the hub publishes (SHA-256 of large
// files, git's object id of small ones) before it gets its name, so that a file
// under its name is whole. A revision that was fetched before is found again
// without a network.
package hub
