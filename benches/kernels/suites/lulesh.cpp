// LULESH: shock hydrodynamics on a mesh of hexahedra whose elements know their eight nodes by
// number: corners gathered from nodes, forces kept by corner and added up at the nodes, and many
// short loops over elements, in OpenMP. Usage: lulesh THREADS SCALE
#include "team.h"
#include <omp.h>
#include <vector>

enum { SIDE = 24, ELEMENTS = SIDE * SIDE * SIDE, POINTS = SIDE + 1, NODES = POINTS * POINTS * POINTS };

struct Mesh {
    std::vector<int> corners = std::vector<int>(8 * ELEMENTS); // of elements: nodes
    std::vector<int> starts = std::vector<int>(NODES + 1), uses = std::vector<int>(8 * ELEMENTS);
    std::vector<double> place[3], speed[3], force[3], push[3]; // of nodes; push: by corner
    std::vector<double> volume, before, energy, pressure, viscosity, change, mass;
};

static void number(Mesh &mesh) {
    std::vector<int> count(NODES + 1);
    for (int e = 0; e < ELEMENTS; e++) {
        int i = e % SIDE, j = e / SIDE % SIDE, k = e / SIDE / SIDE;
        for (int c = 0; c < 8; c++) {
            int node = ((k + (c >> 2)) * POINTS + j + (c >> 1 & 1)) * POINTS + i + (c & 1);
            mesh.corners[8 * e + c] = node;
            count[node]++;
        }
    }
    for (int n = 0; n < NODES; n++) mesh.starts[n + 1] = mesh.starts[n] + count[n];
    std::vector<int> at(mesh.starts.begin(), mesh.starts.end());
    for (int c = 0; c < 8 * ELEMENTS; c++) mesh.uses[at[mesh.corners[c]]++] = c;
}

static void start(Mesh &mesh) {
    for (int d = 0; d < 3; d++) {
        mesh.place[d].resize(NODES), mesh.speed[d].resize(NODES), mesh.force[d].resize(NODES);
        mesh.push[d].resize(8 * ELEMENTS);
    }
    for (auto *field : {&mesh.volume, &mesh.before, &mesh.energy, &mesh.pressure, &mesh.viscosity,
                        &mesh.change, &mesh.mass})
        field->assign(ELEMENTS, 0);
    for (int n = 0; n < NODES; n++) {
        mesh.place[0][n] = n % POINTS, mesh.place[1][n] = n / POINTS % POINTS;
        mesh.place[2][n] = n / POINTS / POINTS;
    }
    for (int e = 0; e < ELEMENTS; e++) mesh.volume[e] = mesh.before[e] = mesh.mass[e] = 1;
    mesh.energy[0] = 3000, mesh.pressure[0] = 2000;
}

// The element's sides from its corners, by the mean of opposite faces; its volume.
static double shape(const Mesh &mesh, int e, double (&area)[3][3]) {
    double x[8][3], side[3][3] = {};
    for (int c = 0; c < 8; c++)
        for (int d = 0; d < 3; d++) x[c][d] = mesh.place[d][mesh.corners[8 * e + c]];
    for (int s = 0; s < 3; s++)
        for (int c = 0; c < 8; c++)
            for (int d = 0; d < 3; d++) side[s][d] += (c >> s & 1 ? 0.25 : -0.25) * x[c][d];
    double volume = 0;
    for (int s = 0; s < 3; s++) {
        const double *a = side[(s + 1) % 3], *b = side[(s + 2) % 3];
        for (int d = 0; d < 3; d++)
            area[s][d] = a[(d + 1) % 3] * b[(d + 2) % 3] - a[(d + 2) % 3] * b[(d + 1) % 3];
    }
    for (int d = 0; d < 3; d++) volume += side[0][d] * area[0][d];
    return volume;
}

static void move_nodes(Mesh &mesh, double dt) {
#pragma omp parallel for
    for (int e = 0; e < ELEMENTS; e++) {
        double area[3][3], stress = mesh.pressure[e] + mesh.viscosity[e];
        shape(mesh, e, area);
        for (int c = 0; c < 8; c++)
            for (int d = 0; d < 3; d++) {
                double sum = 0;
                for (int s = 0; s < 3; s++) sum += c >> s & 1 ? area[s][d] : -area[s][d];
                mesh.push[d][8 * e + c] = 0.25 * stress * sum;
            }
    }
#pragma omp parallel for
    for (int n = 0; n < NODES; n++)
        for (int d = 0; d < 3; d++) {
            double sum = 0;
            for (int k = mesh.starts[n]; k < mesh.starts[n + 1]; k++) sum += mesh.push[d][mesh.uses[k]];
            mesh.force[d][n] = sum;
        }
    for (int d = 0; d < 3; d++) {
#pragma omp parallel for
        for (int n = 0; n < NODES; n++) {
            int at_wall = (d == 0 ? n % POINTS : d == 1 ? n / POINTS % POINTS : n / POINTS / POINTS) == 0;
            mesh.speed[d][n] = at_wall ? 0 : 0.999 * mesh.speed[d][n] + dt * mesh.force[d][n];
        }
#pragma omp parallel for
        for (int n = 0; n < NODES; n++) mesh.place[d][n] += dt * mesh.speed[d][n];
    }
}

// New volumes, and what follows from them for the matter; the next step's length.
static double change_elements(Mesh &mesh, double dt) {
#pragma omp parallel for
    for (int e = 0; e < ELEMENTS; e++) {
        double area[3][3];
        mesh.before[e] = mesh.volume[e];
        mesh.volume[e] = shape(mesh, e, area);
    }
#pragma omp parallel for
    for (int e = 0; e < ELEMENTS; e++) mesh.change[e] = mesh.volume[e] - mesh.before[e];
#pragma omp parallel for
    for (int e = 0; e < ELEMENTS; e++) {
        double rate = mesh.change[e] / dt;
        mesh.viscosity[e] = rate < 0 ? rate * rate * mesh.mass[e] : 0;
    }
#pragma omp parallel for
    for (int e = 0; e < ELEMENTS; e++) {
        mesh.energy[e] -= (mesh.pressure[e] + mesh.viscosity[e]) * mesh.change[e];
        if (mesh.energy[e] < 1e-9) mesh.energy[e] = 0;
    }
    double most = 1e-9;
#pragma omp parallel for reduction(max : most)
    for (int e = 0; e < ELEMENTS; e++) {
        mesh.pressure[e] = 2.0 / 3 * mesh.energy[e] / mesh.volume[e];
        double sound = sqrt(mesh.pressure[e] + mesh.viscosity[e]);
        if (sound > most) most = sound;
    }
    return fmin(0.1 / most, dt * 1.1);
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    omp_set_num_threads(threads);
    Mesh mesh;
    number(mesh);
    start(mesh);
    double dt = 1e-4, time = 0;
    for (int step = 0; step < 150 * scale; step++) {
        move_nodes(mesh, dt);
        time += dt;
        dt = change_elements(mesh, dt);
    }
    printf("%.6e %.6e\n", time, mesh.energy[0]);
    return 0;
}
