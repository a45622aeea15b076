// Package boards has the views of this user's directories for the web page and the screen of `sandgate
// approve`.
package boards
