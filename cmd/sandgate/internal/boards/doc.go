// Package boards is what the web page and the screen of `sandgate approve` show of this user's directories.
package boards
