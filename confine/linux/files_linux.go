package linux

import (
	"os"
)

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
