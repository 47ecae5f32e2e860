package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// extract writes the regular files of a tar archive. There are no others in Curfew's image.
func extract(content io.Reader, into string) error {
	for packed := tar.NewReader(content); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%s is not a regular file below the root", header.Name)
		}
		data, err := io.ReadAll(packed)
		if err != nil {
			return err
		}
		path := filepath.Join(into, header.Name)
		if err := os.WriteFile(path, data, header.FileInfo().Mode().Perm()); err != nil {
			return err
		}
		if err := os.Chtimes(path, header.ModTime, header.ModTime); err != nil {
			return err
		}
	}
}
