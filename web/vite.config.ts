// One HTML file with everything in it: the binary embeds it, and it opens from disk.
import { defineConfig } from 'vite'
import { viteSingleFile } from 'vite-plugin-singlefile'

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: 'es2020',
    rollupOptions: { input: 'report.html' },
  },
})
